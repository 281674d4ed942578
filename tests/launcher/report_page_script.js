// SPDX-License-Identifier: Apache-2.0
// The script of the report's page, run by node on a small page of its own: what a reader sees and can do.
//
//   node report_page_script.js FOLDER    the folder with chart_style.js, charts.js, timeline.js and page.js
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const folder = process.argv[2];

/// As much of an element as the page uses.
class FakeElement {
  constructor(tag) {
    Object.assign(this, {tag, attributes: {}, children: [], listeners: {}, style: {}, dataset: {}, parent: null});
    this.classList = {toggle() {}};
  }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  getAttribute(name) { return this.attributes[name]; }
  append(...children) {
    for (const child of children) {
      if (typeof child !== "string") child.parent = this;
      this.children.push(child);
    }
  }
  replaceChildren(...children) {
    this.children = [];
    this.append(...children);
  }
  getBoundingClientRect() { return {left: 50, width: 102}; }
  remove() { this.parent.children = this.parent.children.filter(child => child !== this); }
  addEventListener(name, call) { this.listeners[name] = call; }
  setPointerCapture() {}
  getContext() { return new Proxy({}, {get: () => () => ({width: 10}), set: () => true}); }
  set textContent(text) { this.children = [text]; }
  get textContent() { return this.children.map(c => (typeof c === "string" ? c : c.textContent)).join(""); }
  all(tag) {
    const own = this.tag === tag ? [this] : [];
    return own.concat(...this.children.filter(c => typeof c !== "string").map(c => c.all(tag)));
  }
}

/// As much of Chart.js as the page uses: x from 0 to 100 lies at the pixels 0 to 100.
class FakeChart {
  static Interaction = {modes: {}};
  static defaults = {font: {}};
  static made = [];
  static fails = false;

  constructor(canvas, config) {
    if (FakeChart.fails) throw new Error("no memory for a canvas");
    Object.assign(this, {data: config.data, options: config.options, hidden: new Set()});
    this.chartArea = {left: 0, right: 100, top: 0, bottom: 100};
    const scale = {left: 0, right: 100, top: 0, bottom: 100, getValueForPixel: p => p, getPixelForValue: v => v};
    this.scales = {x: scale, y: scale};
    for (const plugin of config.plugins) plugin.beforeInit(this);
    FakeChart.made.push(this);
  }
  update() {}
  draw() {}
  setDatasetVisibility(i, visible) { this.hidden[visible ? "delete" : "add"](i); }
  getSortedVisibleDatasetMetas() {
    return this.data.datasets.map((dataset, index) => ({index, data: dataset.data.map(point => ({x: point.x}))}))
      .filter(meta => !this.hidden.has(meta.index));
  }
}

/// A page that shows `document`; `page.run` evaluates an expression of its script.
function open(document, {library = true, failing = false} = {}) {
  const ids = Object.fromEntries(["title", "nav", "main", "about", "data"].map(id => [id, new FakeElement(id)]));
  ids.data.textContent = JSON.stringify(document);
  const body = new FakeElement("body"), errors = [];
  const context = vm.createContext({
    document: {createElement: tag => new FakeElement(tag), createElementNS: (_, tag) => new FakeElement(tag),
               getElementById: id => ids[id], body,
               documentElement: new FakeElement("html")},
    getComputedStyle: () => ({getPropertyValue: name => " " + name}),
    matchMedia: () => ({addEventListener() {}}), addEventListener() {},
    console: {error: error => errors.push(error)},
  });
  FakeChart.made = [];
  FakeChart.fails = failing;
  if (library) context.Chart = FakeChart;
  for (const file of ["chart_style.js", "charts.js", "timeline.js", "page.js"])
    vm.runInContext(fs.readFileSync(path.join(folder, file), "utf8"), context, {filename: file});
  return {...ids, body, errors, charts: FakeChart.made, run: text => vm.runInContext(text, context)};
}

const series = (name, x, y, more = {}) => ({name, x, y, style: 0, draw: "line", ...more});
const table = {kind: "table", cells: "numbers", caption: "Loss", header: ["step", "loss"], rows: [["1", "2.5"]]};
const lines = (id, ...all) => ({
  type: "line", id, title: "Loss", description: "two curves", table, x_label: "step", y_label: "loss", unit: "plain",
  series: all});
const pageWith = (...blocks) => ({
  title: "run <1>", lockstep: "0.1.0", sections: [{id: "curves", heading: "Curves", blocks}]});
/// Two rows from 0 to 100 ms, with 1 ms around them: a pixel is a millisecond, from 51 on.
const timeline = (...more) => ({
  kind: "timeline", id: "step", title: "A step", description: "two rows", x_label: "milliseconds", begin: 0, end: 100,
  kinds: ["forward", "all_reduce"], note: "", table,
  lanes: [{group: "rank 0", name: "compute stream", spans: [{name: "forward", kind: 0, begin: 0, length: 40}, ...more]},
          {group: "network", name: "host 0", spans: [{name: "<b>", kind: 1, begin: 40, length: 60}]}]});
const withCharts = (...charts) => pageWith({kind: "charts", charts});

const tests = {
  "numbers have their unit, and few digits"() {
    const {run} = open(pageWith());
    assert.equal(run('chartStyle.format(.1234567, "percent")'), "12.35%");
    assert.equal(run('chartStyle.format(1536, "bytes")'), "1.5 KiB");
    assert.equal(run('chartStyle.format(NaN, "plain")'), "-");
    assert.equal(run('chartStyle.formatTick(20000, "plain")'), "20K");
  },

  "a logarithmic axis has labels at 1, 2 and 5"() {
    const {run} = open(pageWith());
    const labelled = [1, 2, 3, 5, 7, 10, 20, 30, .2, .3].filter(v => run(`chartStyle.formatLogarithmicTick(${v}, "plain")`));
    assert.deepEqual(labelled, [1, 2, 5, 10, 20, .2]);
  },

  "texts of files are text, whatever they hold"() {
    const page = open(pageWith({kind: "paragraph", style: "plain", text: "<img src=x>"}));
    assert.equal(page.main.all("img").length, 0);
    assert.equal(page.main.all("p")[0].textContent, "<img src=x>");
    assert.equal(page.title.textContent, "run <1>");
  },

  "a table has headers for its columns and rows, and the keyboard reaches it"() {
    const page = open(pageWith(table));
    assert.deepEqual(page.main.all("th").map(cell => cell.attributes.scope), ["col", "col", "row"]);
    assert.deepEqual(page.main.all("td").map(cell => cell.textContent), ["2.5"]);
    assert.equal(page.main.all("table")[0].parent.attributes.tabindex, "0");
    assert.equal(page.nav.all("a")[0].attributes.href, "#curves");
  },

  "each chart has a label and its data as a table"() {
    const page = open(withCharts(lines("loss", series("a", [1, 2], [3, 4]))));
    assert.equal(page.body.dataset.charts, "1 of 1");
    assert.match(page.main.all("canvas")[0].attributes["aria-label"], /two curves/);
    assert.equal(page.main.all("table").length, 1);
  },

  "a chart that cannot be drawn leaves the page and its table"() {
    const page = open(withCharts(lines("loss", series("a", [1, 2], [3, 4]))), {failing: true});
    assert.equal(page.body.dataset.charts, "0 of 1");
    assert.equal(page.errors.length, 1);
    assert.equal(page.main.all("table").length, 1);
  },

  "without Chart.js the page says so, and has the tables"() {
    const page = open(withCharts(lines("loss", series("a", [1, 2], [3, 4]))), {library: false});
    assert.match(page.main.textContent, /libjs-chart\.js/);
    assert.equal(page.main.all("canvas").length, 0);
    assert.equal(page.main.all("table").length, 1);
  },

  "x begins at 0 but for a run that begins late"() {
    const ends = (...x) => {
      const {min, max} = open(withCharts(lines("loss", series("a", x, x)))).charts[0].options.scales.x;
      return [min, max];
    };
    assert.deepEqual(ends(1, 100), [0, 100]);
    assert.deepEqual(ends(90, 100), [90, 100]);
    assert.deepEqual(ends(5), [4, 6]);
  },

  "a button of the legend hides a curve with its band, and shows them again"() {
    const page = open(withCharts(lines("loss", series("a", [1, 2], [3, 4], {draw: "band"}), series("a", [1, 2], [3, 4]),
                                       series("b", [1, 2], [5, 6]))));
    const button = page.main.all("button").find(one => one.textContent === "a");
    const {hidden} = page.charts[0];
    button.listeners.click();
    assert.deepEqual([...hidden].sort(), [0, 1]);
    assert.equal(button.attributes["aria-pressed"], "false");
    button.listeners.click();
    assert.equal(hidden.size, 0);
  },

  "one curve needs no legend"() {
    assert.equal(open(withCharts(lines("loss", series("a", [1, 2], [3, 4])))).main.all("button").length, 0);
  },

  "the pointer reads the nearest point of each curve that is shown"() {
    const page = open(withCharts(lines("loss", series("a", [10, 20, 30], [1, 2, 3]), series("b", [12, 22], [1, null]),
                                       series("c", [19], [7], {draw: "band"}))));
    const [chart] = page.charts;
    const read = x => FakeChart.Interaction.modes.nearestOfEach(chart, {x, y: 50})
      .map(item => [item.datasetIndex, item.index]);
    assert.deepEqual(read(14), [[0, 0], [1, 0]]);
    assert.deepEqual(read(19), [[0, 1]], "b has a gap there, and a band has no values");
    assert.deepEqual(read(90), [], "nothing is near");
    assert.deepEqual(read(-5), [], "outside");
    chart.hidden.add(0);
    assert.deepEqual(read(14), [[1, 0]]);
  },

  "dragging zooms, a click does not, and a double click shows all"() {
    const page = open(withCharts(lines("loss", series("a", [1, 100], [3, 4]))));
    const {listeners} = page.main.all("canvas")[0], x = page.charts[0].options.scales.x;
    const drag = (from, to) => {
      listeners.pointerdown({button: 0, pointerType: "mouse", offsetX: from, pointerId: 1});
      listeners.pointermove({offsetX: to});
      listeners.pointerup({type: "pointerup"});
      return [x.min, x.max];
    };
    assert.deepEqual(drag(40, 43), [0, 100]);
    assert.deepEqual(drag(60, 20), [20, 60]);
    listeners.dblclick();
    assert.deepEqual([x.min, x.max], [0, 100]);
  },

  "a timeline has a bar a span in its row, with its name, begin and length"() {
    const page = open(pageWith(timeline()));
    assert.deepEqual(page.errors, []);
    assert.equal(page.body.dataset.charts, "1 of 1");
    const bars = page.main.all("rect").filter(bar => bar.all("title").length > 0);
    assert.deepEqual(bars.map(bar => [Number(bar.attributes.x), Number(bar.attributes.width)]), [[0, 40], [40, 60]]);
    assert.deepEqual(bars.map(bar => Math.floor(bar.attributes.y / 18)), [0, 1]);
    assert.deepEqual(bars.map(bar => bar.textContent),
                     ["forward: 40 ms, from 0 ms on (rank 0, compute stream)", "<b>: 60 ms, from 40 ms on (network, host 0)"]);
    assert.equal(page.main.all("b").length, 0);
    assert.match(page.main.all("svg")[0].attributes["aria-label"], /two rows/);
    assert.equal(page.main.all("table").length, 1);
  },

  "a timeline is drawn without Chart.js, which no page without a chart asks for"() {
    const page = open(pageWith(timeline()), {library: false});
    assert.equal(page.body.dataset.charts, "1 of 1");
    assert.doesNotMatch(page.main.textContent, /libjs-chart/);
  },

  "a timeline that cannot be drawn leaves the page and its table"() {
    const page = open(pageWith(timeline({name: "x", kind: 7, begin: 0, length: 1})));
    assert.equal(page.body.dataset.charts, "0 of 1");
    assert.equal(page.main.all("table").length, 1);
  },

  "a timeline's axis has round numbers"() {
    const {run} = open(pageWith());
    assert.deepEqual([...run("timelines.ticksOf(-1, 101)")], [0, 20, 40, 60, 80, 100]);
    assert.deepEqual([...run("timelines.ticksOf(.0031, .0069)")], [.004, .005, .006]);
  },

  "dragging zooms a timeline, a click does not, and a double click shows all"() {
    const page = open(pageWith(timeline()));
    const [svg] = page.main.all("svg");
    const drag = (from, to, end = "pointerup") => {
      svg.listeners.pointerdown({button: 0, pointerType: "mouse", clientX: 51 + from, pointerId: 1});
      svg.listeners.pointermove({clientX: 51 + to});
      svg.listeners[end]({type: end});
      return svg.attributes.viewBox;
    };
    assert.equal(drag(10, 10), "-1 0 102 36");
    assert.equal(drag(10, 60, "pointercancel"), "-1 0 102 36");
    assert.equal(drag(60, 20), "20 0 40 36");
    svg.listeners.dblclick();
    assert.equal(svg.attributes.viewBox, "-1 0 102 36");
  },

  "a button of a timeline's legend hides the bars of a kind, and shows them again"() {
    const page = open(pageWith(timeline()));
    const button = page.main.all("button").find(one => one.textContent === "all_reduce");
    const [, bars] = page.main.all("svg")[0].all("g").filter(group => group.attributes.class === "bars");
    button.listeners.click();
    assert.equal(button.attributes["aria-pressed"], "false");
    assert.equal(bars.attributes.visibility, "hidden");
    button.listeners.click();
    assert.equal(bars.attributes.visibility, "visible");
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    test();
    console.log("ok      " + name);
  } catch (error) {
    ++failed;
    console.log("FAILED  " + name + "\n" + error.stack);
  }
}
process.exit(failed ? 1 : 0);
