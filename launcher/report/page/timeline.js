// Draws the timelines of a document as SVG: a row a lane, spans as bars over milliseconds, with zoom, values under the
// pointer and a legend of buttons. make() and makeSvg() are those of page.js.
"use strict";

const timelines = (() => {
  const ROW = 18, BAR = 14, LOW_BAR = 9, TICKS = 6;
  const LEAST = 1e-5;  // milliseconds; spans are given to a nanosecond
  const {fillName, format} = chartStyle;

  const milliseconds = value => format(value, "plain") + " ms";

  // --- bars ---

  /// Those of odd kinds are lower, so that neighbours differ without colours.
  function makeBar(kind, top, begin, length, ...children) {
    const height = kind % 2 === 0 ? BAR : LOW_BAR;
    return makeSvg("rect", {x: begin, y: top + (ROW - height) / 2, width: length, height}, ...children);
  }

  const groupOf = kind => makeSvg("g", {class: "bars", style: `color: var(${fillName(kind)})`});

  /// A group of bars for each kind.
  function makeBars(spec) {
    const groups = spec.kinds.map((_, kind) => groupOf(kind));
    spec.lanes.forEach((lane, row) => {
      for (const span of lane.spans) {
        const {name, kind, begin, length} = span;
        const words = `${name}: ${milliseconds(length)}, from ${milliseconds(begin)} on (${nameOf(lane)})`;
        groups[kind].append(makeBar(kind, row * ROW, begin, length, makeSvg("title", {}, words)));
      }
    });
    return groups;
  }

  // --- what lies around them ---

  const nameOf = lane => lane.group + ", " + lane.name;

  function makeNames(spec) {
    return make("div", {class: "lanes", "aria-hidden": "true"},
                ...spec.lanes.map(lane => make("div", {title: nameOf(lane)}, nameOf(lane))));
  }

  /// Multiples of 1, 2 or 5 times a power of ten.
  function ticksOf(from, to) {
    const least = (to - from) / TICKS, power = 10 ** Math.floor(Math.log10(least));
    const step = power * [1, 2, 5, 10].find(factor => factor * power >= least * (1 - 1e-9));
    const ticks = [];
    for (let i = Math.ceil(from / step - 1e-9); i * step <= to + 1e-9 * step; ++i)
      ticks.push(Number((i * step).toPrecision(12)));
    return ticks;
  }

  /// Lines below the bars: at ticks, and between groups of lanes.
  function makeGrid(spec, ticks, from, to) {
    const line = (x1, y1, x2, y2) => makeSvg("line", {x1, y1, x2, y2});
    const rows = [...spec.lanes.keys()].filter(row => row > 0 && spec.lanes[row].group !== spec.lanes[row - 1].group);
    return [...ticks.map(tick => line(tick, 0, tick, spec.lanes.length * ROW)),
            ...rows.map(row => line(from, row * ROW, to, row * ROW))];
  }

  // --- zoom ---

  /// Dragging selects a stretch of time; a double click shows all again.
  function addZoom(svg, selection, view, show) {
    let start = null, end = null;
    const timeAt = event => {
      const box = svg.getBoundingClientRect();
      return view.from + Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * (view.to - view.from);
    };
    const mark = (from, to) => {
      selection.setAttribute("x", Math.min(from, to));
      selection.setAttribute("width", Math.abs(to - from));
    };
    svg.addEventListener("pointerdown", event => {
      if (event.button !== 0 || event.pointerType === "touch") return;  // a finger scrolls the page
      start = end = timeAt(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", event => {
      if (start === null) return;
      end = timeAt(event);
      mark(start, end);
    });
    const finish = event => {
      if (start === null) return;
      const [from, to] = [Math.min(start, end), Math.max(start, end)];
      start = null;
      mark(0, 0);
      if (event.type === "pointerup" && to - from > Math.max(LEAST, (view.to - view.from) / 200)) show(from, to);
    };
    svg.addEventListener("pointerup", finish);
    svg.addEventListener("pointercancel", finish);
    svg.addEventListener("dblclick", () => show(view.begin, view.end));
  }

  // --- legend ---

  /// Buttons that show or hide the bars of a kind, for the keyboard too.
  function addLegend(spec, groups, list) {
    spec.kinds.forEach((name, kind) => {
      const swatch = groupOf(kind);
      swatch.append(makeBar(kind, 0, 0, 28));
      const button = make("button", {type: "button", "aria-pressed": "true"},
                          makeSvg("svg", {width: 28, height: ROW, "aria-hidden": "true"}, swatch), name);
      button.addEventListener("click", () => {
        const visible = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(visible));
        groups[kind].setAttribute("visibility", visible ? "visible" : "hidden");
      });
      list.append(make("li", {}, button));
    });
  }

  /// Draws `spec` into `plot` and fills the list `legend`.
  function draw(spec, plot, legend) {
    const height = spec.lanes.length * ROW, margin = (spec.end - spec.begin) / 100;
    const view = {begin: spec.begin - margin, end: spec.end + margin};
    const groups = makeBars(spec), grid = makeSvg("g", {class: "grid"});
    const selection = makeSvg("rect", {class: "selection", x: 0, y: 0, width: 0, height});
    const svg = makeSvg("svg", {role: "img", "aria-label": spec.title + ". " + spec.description, height,
                                preserveAspectRatio: "none"}, grid, ...groups, selection);
    const axis = make("div", {class: "axis", "aria-hidden": "true"});
    const show = (from, to) => {
      Object.assign(view, {from, to});
      const ticks = ticksOf(from, to);
      svg.setAttribute("viewBox", `${from} 0 ${to - from} ${height}`);
      grid.replaceChildren(...makeGrid(spec, ticks, from, to));
      axis.replaceChildren(...ticks.map(
        tick => make("span", {style: `left: ${100 * (tick - from) / (to - from)}%`}, String(tick))));
    };
    show(view.begin, view.end);
    addZoom(svg, selection, view, show);
    addLegend(spec, groups, legend);
    plot.append(makeNames(spec), svg, axis, make("div", {class: "axis-label", "aria-hidden": "true"}, spec.x_label));
  }

  return {draw, ticksOf};
})();
