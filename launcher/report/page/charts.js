// Draws the charts of a document with Chart.js (3 or 4): lines, layers and bars, with zoom, values under the pointer and a
// legend of buttons.
"use strict";

const charts = (() => {
  if (typeof Chart === "undefined") return {available: false};

  const {colour, lineColour, dashOf, fillOf, format, formatTick, formatLogarithmicTick} = chartStyle;
  const LINE_HEIGHT = 270, BAR_PITCH = 44, BAR_AXIS = 52;
  const painters = [];  // each sets the colours of a chart

  // --- colours ---

  function paintScales(chart) {
    for (const scale of Object.values(chart.options.scales)) {
      scale.grid.color = colour("line");
      scale.grid.borderColor = colour("soft");
      if (scale.border) scale.border.color = colour("soft");
      scale.ticks.color = scale.title.color = colour("soft");
    }
    Object.assign(chart.options.plugins.tooltip, {
      backgroundColor: colour("card"), titleColor: colour("text"), bodyColor: colour("text"),
      borderColor: colour("line"), borderWidth: 1,
    });
  }

  /// Of lines: a colour and dashes each.
  function paintLine(dataset) {
    const own = lineColour(dataset.style);
    dataset.borderColor = dataset.draw === "band" ? own + "80" : own;
    dataset.pointBackgroundColor = dataset.draw === "hollow" ? colour("card") : own;
    dataset.pointBorderColor = own;
    dataset.backgroundColor = own;
  }

  function paintArea(dataset) {
    dataset.backgroundColor = fillOf(dataset.style);
    dataset.borderColor = colour("card");
  }

  // --- what lies over a chart ---

  function lineAcross(context, dash, paint, x1, y1, x2, y2) {
    context.setLineDash(dash);
    context.strokeStyle = paint;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
  }

  /// Ranges of points, marks, levels, the selection of a zoom, and a line under the pointer.
  const overlay = {
    id: "overlay",
    afterDatasetsDraw(chart) {
      const {ctx: context, chartArea: area, $spec: spec, scales: {x, y}} = chart;
      if (spec.type === "bar") return labelBars(chart);
      context.save();
      context.beginPath();
      context.rect(area.left, area.top, area.width, area.height);
      context.clip();
      chart.getSortedVisibleDatasetMetas().forEach(meta => {
        const {min, max, data} = chart.data.datasets[meta.index];
        (min || []).forEach((_, i) => {
          const at = x.getPixelForValue(data[i].x);
          lineAcross(context, [], lineColour(chart.data.datasets[meta.index].style),
                     at, y.getPixelForValue(min[i]), at, y.getPixelForValue(max[i]));
        });
      });
      const soft = colour("soft");
      if (!chart.$hidden.has("marks"))
        for (const mark of spec.marks || [])
          lineAcross(context, [3, 3], soft, x.getPixelForValue(mark), area.top, x.getPixelForValue(mark), area.bottom);
      for (const level of spec.levels || [])
        if (!chart.$hidden.has(level))
          lineAcross(context, [8, 4], soft, area.left, y.getPixelForValue(level.value), area.right,
                     y.getPixelForValue(level.value));
      const pointed = chart.tooltip && chart.tooltip.getActiveElements();
      if (pointed && pointed.length)
        lineAcross(context, [], colour("text"), pointed[0].element.x, area.top, pointed[0].element.x, area.bottom);
      if (chart.$selection) {
        context.globalAlpha = .2;
        context.fillStyle = colour("focus");
        context.fillRect(chart.$selection[0], area.top, chart.$selection[1] - chart.$selection[0], area.height);
      }
      context.restore();
    },
  };

  /// A label above each bar and its total at the right end: names of hosts and categories are long.
  function labelBars(chart) {
    const {ctx: context, chartArea: area, $spec: spec, scales: {y}} = chart;
    context.save();
    context.font = "12px " + Chart.defaults.font.family;
    context.fillStyle = colour("text");
    context.textBaseline = "bottom";
    spec.labels.forEach((label, i) => {
      const bottom = y.getPixelForValue(i) - 11;
      const space = area.width - context.measureText(spec.totals[i]).width - 12;
      context.textAlign = "right";
      context.fillText(spec.totals[i], area.right, bottom);
      context.textAlign = "left";
      if (space > 20) context.fillText(label, area.left, bottom, space);
    });
    context.restore();
  }

  /// The point of each visible series that is nearest to the pointer.
  Chart.Interaction.modes.nearestOfEach = (chart, event) => {
    const {x, y} = chart.scales;
    const items = [];
    if (event.x < x.left || event.x > x.right || event.y < y.top - 20 || event.y > y.bottom + 20) return items;
    const wanted = x.getValueForPixel(event.x);
    for (const meta of chart.getSortedVisibleDatasetMetas()) {
      const {data, draw} = chart.data.datasets[meta.index];
      if (draw === "band" || !data.length) continue;
      let low = 0, high = data.length - 1;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (data[middle].x < wanted) low = middle + 1;
        else high = middle;
      }
      if (low > 0 && wanted - data[low - 1].x < data[low].x - wanted) --low;
      const element = meta.data[low];
      if (!Number.isFinite(data[low].y) || !element) continue;
      if (Math.abs(element.x - event.x) > (x.right - x.left) / 8) continue;
      items.push({element, datasetIndex: meta.index, index: low});
    }
    return items.sort((a, b) => a.datasetIndex - b.datasetIndex);
  };

  // --- zoom ---

  /// Dragging selects a stretch of x; a double click shows all again.
  function addZoom(chart, canvas) {
    const {min, max} = chart.options.scales.x;
    let start = null;
    const place = event => Math.min(chart.chartArea.right, Math.max(chart.chartArea.left, event.offsetX));
    const show = (from, to) => {
      Object.assign(chart.options.scales.x, {min: from, max: to});
      chart.update("none");
    };
    canvas.addEventListener("pointerdown", event => {
      if (event.button !== 0 || event.pointerType === "touch") return;  // a finger scrolls the page
      start = place(event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      if (start === null) return;
      chart.$selection = [start, place(event)];
      chart.draw();
    });
    const end = event => {
      const selection = chart.$selection;
      start = chart.$selection = null;
      if (!selection) return;
      const [from, to] = selection.sort((a, b) => a - b).map(pixel => chart.scales.x.getValueForPixel(pixel));
      if (event.type === "pointerup" && selection[1] - selection[0] > 5 && to > from) show(from, to);
      else chart.draw();
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("dblclick", () => show(min, max));
  }

  // --- legend ---

  /// A small line or square as the chart has it.
  function drawSwatch(canvas, entry) {
    const context = canvas.getContext("2d");
    canvas.width = 56;
    canvas.height = 24;
    context.lineWidth = entry.draw === "band" ? 2 : 4;
    if (entry.area) {
      context.fillStyle = fillOf(entry.style);
      context.fillRect(0, 0, 56, 24);
    } else {
      const paint = entry.style === undefined ? colour("soft") : lineColour(entry.style);
      if (entry.draw === "band") context.globalAlpha = .5;
      lineAcross(context, entry.dash.map(length => 2 * length), paint, 0, 12, 56, 12);
    }
  }

  function legendEntries(chart) {
    const {$spec: spec, data: {datasets}} = chart;
    const area = spec.type !== "line";
    const entries = [], byName = new Map();
    datasets.forEach((dataset, i) => {
      const entry = byName.get(dataset.label);
      if (entry && (entry.draw === "band" || dataset.draw === "band")) {
        entry.indices.push(i);
        Object.assign(entry, {draw: "line", dash: dataset.draw === "band" ? entry.dash : dataset.borderDash});
      } else {
        const made = {name: dataset.label, indices: [i], area, style: dataset.style, draw: dataset.draw,
                      dash: dataset.borderDash || []};
        byName.set(dataset.label, made);
        entries.push(made);
      }
    });
    if (spec.type === "area") entries.reverse();  // as they lie on one another
    const bands = datasets.filter(dataset => dataset.draw === "band");
    if (bands.length)
      entries.push({name: "faint: each step that was logged", style: bands[0].style, draw: "band", dash: [],
                    indices: bands.map(band => datasets.indexOf(band))});
    if (spec.marks && spec.marks.length) entries.push({name: spec.marks_name, key: "marks", dash: [3, 3]});
    for (const level of spec.levels || []) entries.push({name: level.name, key: level, dash: [8, 4]});
    return entries;
  }

  /// Buttons that show or hide a curve, for the keyboard too.
  function addLegend(chart, list) {
    const entries = legendEntries(chart);
    if (entries.length < 2) return list.remove();
    for (const entry of entries) {
      const swatch = document.createElement("canvas");
      swatch.setAttribute("aria-hidden", "true");
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.append(swatch, entry.name);
      button.addEventListener("click", () => {
        const visible = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(visible));
        for (const i of entry.indices || []) chart.setDatasetVisibility(i, visible);
        if (entry.key) chart.$hidden[visible ? "delete" : "add"](entry.key);
        chart.update("none");
      });
      const item = document.createElement("li");
      item.append(button);
      list.append(item);
      drawSwatch(swatch, entry);
      painters.push(() => drawSwatch(swatch, entry));
    }
  }

  // --- the kinds of charts ---

  const points = (xs, ys) => xs.map((x, i) => ({x, y: ys[i] === null ? NaN : ys[i]}));

  /// A point between two gaps has no line, and would not be seen.
  function radii(series, data) {
    if (series.draw === "markers") return 2.5;
    if (series.draw === "hollow") return 4;
    const isGap = i => !data[i] || Number.isNaN(data[i].y);
    return data.map((_, i) => (isGap(i - 1) && isGap(i + 1) ? 2 : 0));
  }

  function lineDataset(series) {
    const data = points(series.x, series.y);
    const band = series.draw === "band";
    return {
      label: series.name, data, style: series.style, draw: series.draw, min: series.min, max: series.max,
      borderWidth: band || series.draw === "hollow" ? 1 : 2, borderJoinStyle: "round", order: band ? 1 : 0,
      borderDash: band ? [] : series.draw === "hollow" ? [4, 4] : dashOf(series.style),
      pointRadius: radii(series, data), pointHitRadius: 0, pointHoverRadius: band ? 0 : 4, spanGaps: false,
    };
  }

  function areaDataset(spec, series, i) {
    return {
      label: series.name, data: points(spec.x, series.y), style: series.style, fill: i === 0 ? "origin" : "-1",
      borderWidth: .6, pointRadius: 0, pointHitRadius: 0, pointHoverRadius: 3,
    };
  }

  /// Ends of x: steps are counted from 1, and a run that branched off begins later.
  function xRange(datasets) {
    let first = Infinity, last = -Infinity;
    for (const {data} of datasets) {
      if (!data.length) continue;
      first = Math.min(first, data[0].x);
      last = Math.max(last, data[data.length - 1].x);
    }
    if (first === last) return {min: first - 1, max: last + 1};
    return {min: first < last / 10 ? 0 : first, max: last};
  }

  const axis = (text, options) => ({
    title: {display: true, text}, grid: {}, border: {}, ...options,
    ticks: {maxRotation: 0, autoSkipPadding: 12, ...options.ticks},
  });

  /// Steps of two powers for bytes, which decimal steps would not suit.
  function byteSteps(spec) {
    if (spec.unit !== "bytes") return {};
    const stacked = spec.type !== "line", sums = [];
    for (const {y} of spec.series)
      y.forEach((value, i) => { sums[i] = stacked ? (sums[i] || 0) + value : Math.max(sums[i] || 0, value); });
    const max = sums.reduce((a, b) => Math.max(a, b), 1);
    return {stepSize: 2 ** Math.ceil(Math.log2(max / 5))};
  }

  function linearX(spec, datasets) {
    if (!spec.x_ticks)
      return axis(spec.x_label, {type: "linear", ...xRange(datasets),
                                 ticks: {includeBounds: false, precision: 0, callback: v => formatTick(v, "plain")}});
    const margin = spec.x_ticks.length > 1 ? 1.1 : 2;
    return axis(spec.x_label, {
      type: "logarithmic", min: spec.x_ticks[0] / margin, max: spec.x_ticks[spec.x_ticks.length - 1] * margin,
      afterBuildTicks: scale => { scale.ticks = spec.x_ticks.map(value => ({value})); },
      ticks: {callback: v => formatTick(v, "plain"), autoSkip: true},
    });
  }

  function lineConfig(spec) {
    const area = spec.type === "area";
    const datasets = spec.series.map((series, i) => area ? areaDataset(spec, series, i) : lineDataset(series));
    const levels = (spec.levels || []).map(level => level.value);
    const ranges = spec.series.flatMap(series => [...(series.min || []), ...(series.max || [])]);
    const suggested = [...levels, ...ranges];
    const y = spec.logarithmic
      ? axis([spec.y_label, "(logarithmic)"], {type: "logarithmic",
                                               ticks: {callback: v => formatLogarithmicTick(v, spec.unit)}})
      : axis(spec.y_label, {type: "linear", beginAtZero: area || spec.from_zero, stacked: area,
                            ticks: {callback: v => formatTick(v, spec.unit), ...byteSteps(spec)}});
    if (suggested.length) {
      y.suggestedMin = Math.min(...suggested);
      y.suggestedMax = Math.max(...suggested);
    }
    const label = item => {
      const {min, max, data, label: name} = item.dataset;
      const at = data[item.dataIndex];
      const range = min ? ` (${format(min[item.dataIndex], spec.unit)} to ${format(max[item.dataIndex], spec.unit)})` : "";
      return `${name.slice(0, 60)}: ${format(at.y, spec.unit)}${range}`;
    };
    return {
      type: "line", data: {datasets},
      options: {
        parsing: false, normalized: true, scales: {x: linearX(spec, datasets), y},
        interaction: {mode: "nearestOfEach", intersect: false},
        plugins: {tooltip: {callbacks: {
          title: items => items.length ? `${spec.x_label} ${format(items[0].raw.x, "plain")}` : "", label}}},
      },
    };
  }

  function barConfig(spec) {
    const datasets = spec.series.map(series => ({
      label: series.name, data: series.y, style: series.style, borderWidth: .6, barThickness: 18,
    }));
    return {
      type: "bar", data: {labels: spec.labels, datasets},
      options: {
        layout: {padding: {top: 6}},
        indexAxis: "y", interaction: {mode: "index", axis: "y", intersect: false},
        scales: {
          x: axis(spec.x_label, {stacked: true, beginAtZero: true,
                                 ticks: {callback: v => formatTick(v, spec.unit), ...byteSteps(spec)}}),
          y: axis("", {stacked: true, grid: {display: false}, ticks: {display: false}}),
        },
        plugins: {tooltip: {filter: item => item.raw > 0, callbacks: {
          label: item => `${item.dataset.label}: ${format(item.raw, spec.unit)}`}}},
      },
    };
  }

  /// Draws `spec` into `canvas` and fills the list `legend`.
  function draw(spec, plot, canvas, legend) {
    const bar = spec.type === "bar";
    plot.style.height = (bar ? BAR_AXIS + BAR_PITCH * spec.labels.length : LINE_HEIGHT) + "px";
    const config = bar ? barConfig(spec) : lineConfig(spec);
    Object.assign(config.options, {animation: false, responsive: true, maintainAspectRatio: false});
    config.options.plugins.legend = {display: false};
    config.plugins = [{...overlay, beforeInit: chart => Object.assign(chart, {$spec: spec, $hidden: new Set()})}];
    const paintDataset = spec.type === "line" ? paintLine : paintArea;
    config.data.datasets.forEach(paintDataset);
    const chart = new Chart(canvas, config);
    addLegend(chart, legend);
    if (!bar) addZoom(chart, canvas);
    const paint = () => {
      chart.data.datasets.forEach(paintDataset);
      paintScales(chart);
      chart.update("none");
    };
    painters.push(paint);
    paint();
  }

  function paintAll() { painters.forEach(paint => paint()); }

  Chart.defaults.font.family = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintAll);
  for (const [event, printing] of [["beforeprint", true], ["afterprint", false]])
    addEventListener(event, () => {
      document.documentElement.classList.toggle("printing", printing);
      paintAll();
    });
  return {available: true, draw};
})();
