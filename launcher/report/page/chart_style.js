// Numbers and colours of charts. Colours come from the style sheet, so that dark screens and print have their own.
"use strict";

const chartStyle = (() => {
  const DASHES = [[], [7, 3], [2, 3], [10, 3, 2, 3], [4, 2], [12, 4], [1, 2], [6, 2, 1, 2, 1, 2]];
  const LINES = 8, AREAS = 10;

  const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const lineColour = style => colour("s" + style % LINES);
  /// Lines of one colour have other dashes.
  const dashOf = style => DASHES[(style + 3 * Math.floor(style / LINES)) % LINES];

  /// As the tables have it.
  function format(value, unit) {
    if (!Number.isFinite(value)) return "-";
    if (unit === "percent") return Number((100 * value).toPrecision(4)) + "%";
    if (unit === "bytes") return formatBytes(value);
    const size = Math.abs(value);
    if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(2);
    return size >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
  }

  function formatBytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    for (; value >= 1024 && i < units.length - 1; ++i) value /= 1024;
    return Number(value.toPrecision(4)) + " " + units[i];
  }

  const compact = new Intl.NumberFormat("en", {notation: "compact", maximumSignificantDigits: 4});
  function formatTick(value, unit) {
    if (unit !== "plain") return format(value, unit);
    const size = Math.abs(value);
    if (size >= 1e15 || (size > 0 && size < 1e-4)) return String(Number(value.toPrecision(3)));
    return size >= 1e4 ? compact.format(value) : String(Number(value.toPrecision(6)));
  }

  /// On a logarithmic axis: at 1, 2 and 5 times a power of ten.
  function formatLogarithmicTick(value, unit) {
    const digit = Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9));
    return [1, 2, 5, 10].includes(digit) ? formatTick(value, unit) : "";
  }

  /// The style sheet's name for the colour of an area.
  const fillName = style => "--p" + style % AREAS;

  /// The colour of an area; odd ones are hatched, so that neighbours differ without colours.
  function fillOf(style) {
    style %= AREAS;
    const own = colour("p" + style);
    if (style % 2 === 0) return own;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const context = tile.getContext("2d");
    context.fillStyle = own;
    context.fillRect(0, 0, 8, 8);
    context.strokeStyle = colour("card");
    context.globalAlpha = .55;
    context.beginPath();
    for (const shift of [-8, 0, 8]) {
      context.moveTo(shift - 1, style % 4 === 1 ? -1 : 9);
      context.lineTo(shift + 9, style % 4 === 1 ? 9 : -1);
    }
    context.stroke();
    return context.createPattern(tile, "repeat");
  }

  return {colour, lineColour, dashOf, fillName, fillOf, format, formatTick, formatLogarithmicTick};
})();
