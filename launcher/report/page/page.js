// Shows the document of the page, the JSON in #data: sections of blocks. Its texts come from files that anybody may have
// written: they become text nodes and values of attributes, never HTML.
"use strict";

function equip(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/// An element with attributes and children; children that are strings become text nodes.
function make(tag, attributes = {}, ...children) {
  return equip(document.createElement(tag), attributes, children);
}

/// An element of a drawing.
function makeSvg(tag, attributes = {}, ...children) {
  return equip(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function makeRow(cells, isHeader) {
  return make("tr", {}, ...cells.map((cell, i) => {
    if (isHeader) return make("th", {scope: "col"}, cell);
    return i === 0 ? make("th", {scope: "row"}, cell) : make("td", {}, cell);
  }));
}

/// A table in a frame that scrolls by itself and that the keyboard reaches.
function makeTable(block) {
  const table = make("table", {class: block.cells},
                     make("caption", {}, block.caption),
                     make("thead", {}, makeRow(block.header, true)),
                     make("tbody", {}, ...block.rows.map(row => makeRow(row, false))));
  return make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": block.caption}, table);
}

function makeDetails(summary, ...children) {
  return make("details", {}, make("summary", {}, summary), ...children);
}

/// A chart: its heading, its drawing with a label for those who do not see it, its legend, and its data as a table.
function makeFigure(chart) {
  const figure = make("figure", {id: "chart-" + chart.id}, make("figcaption", {}, chart.title));
  const canvas = make("canvas", {role: "img", "aria-label": chart.title + ". " + chart.description});
  const plot = make("div", {class: "plot"}, canvas);
  const legend = make("ul", {class: "legend", "aria-label": "Curves of " + chart.title});
  if (charts.available) figure.append(plot, legend);
  figure.append(makeDetails("Data: " + chart.title, makeTable(chart.table)));
  if (charts.available) waiting.push(() => charts.draw(chart, plot, canvas, legend));
  else ++undrawn;
  return figure;
}

/// A timeline, as a chart.
function makeTimeline(block) {
  const plot = make("div", {class: "rows"});
  const legend = make("ul", {class: "legend", "aria-label": "Spans of " + block.title});
  waiting.push(() => timelines.draw(block, plot, legend));
  return make("figure", {id: "timeline-" + block.id, class: "timeline"},
              make("figcaption", {}, block.title), plot, legend,
              ...(block.note ? [make("p", {class: "quiet"}, block.note)] : []),
              makeDetails("Data: " + block.title, makeTable(block.table)));
}

function makeAdvice(item) {
  const element = make("li", {}, make("strong", {}, item.text));
  if (item.evidence) element.append(make("br"), item.evidence);
  if (item.remedy) element.append(make("br"), "Remedy: ", make("code", {}, item.remedy));
  if (item.gain) element.append(make("br"), make("span", {class: "quiet"}, item.gain));
  return element;
}

/// By a block's kind.
const makers = {
  paragraph: block => make("p", {}, block.style === "plain" ? block.text
                                                            : make("span", {class: block.style}, block.text)),
  heading: block => make("h3", {}, block.text),
  table: makeTable,
  details: block => makeDetails(block.summary, ...block.blocks.map(makeBlock)),
  charts: block => make("div", {class: "charts"}, ...block.charts.map(makeFigure)),
  timeline: makeTimeline,
  advice: block => make("ol", {class: "advice"}, ...block.items.map(makeAdvice)),
  facts: block => make("dl", {class: "facts"}, ...block.facts.map(
    fact => make("div", fact.large ? {class: "large"} : {}, make("dt", {}, fact.name), make("dd", {}, fact.value)))),
};

function makeBlock(block) {
  if (block.kind === "paragraph" && block.style === "note") return make("p", {class: "note"}, block.text);
  return makers[block.kind](block);
}

function makeSection(section) {
  const heading = make("h2", {id: section.id + "-h"}, section.heading);
  return make("section", {id: section.id, "aria-labelledby": section.id + "-h"}, heading,
              ...section.blocks.map(makeBlock));
}

const waiting = [];  // charts and timelines, which need their place on the page before they can be drawn
let undrawn = 0;     // charts that need Chart.js, which is not there

function show(data) {
  document.title = data.title + " - Lockstep";
  document.getElementById("title").textContent = data.title;
  const main = document.getElementById("main");
  const sections = data.sections.map(makeSection);
  if (undrawn > 0)
    main.append(make("p", {class: "note"},
                     "Charts are not drawn, but their data is in the tables: this lockstep was built without Chart.js. " +
                     "Install it (Debian, Ubuntu: apt-get install libjs-chart.js) and build lockstep again."));
  main.append(...sections);
  document.getElementById("nav").append(...data.sections.map(
    section => make("li", {}, make("a", {href: "#" + section.id}, section.heading))));
  document.getElementById("about").textContent =
    "Written by lockstep " + data.lockstep + ". " +
    (waiting.length > 0 ? "Values under the pointer are read off the charts; drag to zoom, double-click to see all; " : "") +
    "exact values are in the tables below the charts.";
  let drawn = 0;
  for (const draw of waiting) {
    try {
      draw();
      ++drawn;
    } catch (error) {
      console.error(error);
    }
  }
  document.body.dataset.charts = drawn + " of " + waiting.length;
}

show(JSON.parse(document.getElementById("data").textContent));
