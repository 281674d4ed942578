// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/style.h"

#include <fmt/format.h>
#include <iterator>

namespace lockstep::report {
namespace {

// Okabe and Ito's colours (Color Universal Design, 2008), darkened where they do not reach a
// contrast of 3 against white; on dark they are as published or lighter.
constexpr const char* kLineColours[][2] = {{"#0072b2", "#56b4e9"},
                                           {"#d04a00", "#ff9a4d"},
                                           {"#00795a", "#2fcf9f"},
                                           {"#a8437f", "#f09ac6"},
                                           {"#7a6700", "#f0e442"},
                                           {"#333a44", "#d5dae1"},
                                           {"#6a4fc0", "#b3a3ff"},
                                           {"#8a3b12", "#d9946a"}};
constexpr const char* kDashes[] = {
    "none", "7 3", "2 3", "10 3 2 3", "4 2", "12 4", "1 2", "6 2 1 2 1 2"};

// By Part: forward and backward, then what waits or stalls. The odd ones are hatched too.
constexpr const char* kAreaColours[][2] = {{"#0072b2", "#4aa3dc"},
                                           {"#3f93cc", "#1f6fa8"},
                                           {"#00795a", "#2fb58c"},
                                           {"#d04a00", "#ff8a3d"},
                                           {"#b97a10", "#b8741a"},
                                           {"#a8437f", "#f09ac6"},
                                           {"#6a4fc0", "#a896ff"},
                                           {"#7a6700", "#d8cc3a"},
                                           {"#8a3b12", "#d9946a"},
                                           {"#8d959f", "#6d7682"}};

constexpr const char* kRules = R"css(
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
header,main,footer{max-width:1180px;margin:0 auto;padding:0 16px}
h1{font-size:1.6rem;line-height:1.25;margin:1.2rem 0 .3rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:0 0 .6rem}
h3{font-size:1rem;margin:1rem 0 .3rem;overflow-wrap:anywhere}
p{margin:.3rem 0 .6rem;max-width:75ch;overflow-wrap:anywhere}
a{color:var(--link)}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:3px solid var(--focus);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-999px;top:0;background:var(--card);padding:.5rem 1rem;z-index:9}
.skip:focus{left:8px;top:8px}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;margin:.6rem 0 1rem}
nav a{display:inline-block;padding:.25rem 0}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:16px;margin:0 0 16px}
.quiet{color:var(--soft)}
.state{display:inline-block;border:1px solid var(--line);border-radius:99px;padding:.05rem .7rem;background:var(--page)}
.note{border-left:4px solid var(--s1);padding:.1rem .8rem;margin:.5rem 0}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(140px,1fr));gap:.5rem 1.2rem;margin:.6rem 0}
.facts div{min-width:0}
.facts dt{color:var(--soft);font-size:.85rem}
.facts dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
.facts .big dd{font-size:1.35rem;font-weight:600;line-height:1.3}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,440px),1fr));gap:18px 26px;align-items:start}
figure{margin:0;min-width:0;max-width:760px}
figcaption{font-weight:600}
figure>svg{display:block;width:100%;height:auto;touch-action:pan-y}
svg text{font-size:14px;fill:var(--soft);font-family:inherit}
.bars text{fill:var(--text)}
.axes path{stroke:var(--line);fill:none;vector-effect:non-scaling-stroke}
.axes .base{stroke:var(--soft)}
.c{fill:none;stroke-width:2;stroke-linejoin:round;vector-effect:non-scaling-stroke}
.c.faint{stroke-width:1;opacity:.5;stroke-dasharray:none}
.dots{fill:none;stroke-width:5;stroke-linecap:round;stroke-dasharray:none!important;vector-effect:non-scaling-stroke}
.mark{stroke:var(--soft);stroke-width:1;stroke-dasharray:3 3;vector-effect:non-scaling-stroke}
.level{stroke:var(--soft);stroke-width:1.5;stroke-dasharray:8 4;vector-effect:non-scaling-stroke}
.cross{stroke:var(--text);stroke-width:1;vector-effect:non-scaling-stroke}
polygon,rect{stroke:var(--card);stroke-width:.6;vector-effect:non-scaling-stroke}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.15rem 1rem;padding:0;margin:.3rem 0;font-size:.88rem}
.legend li{display:flex;align-items:center;gap:.4rem;min-width:0;overflow-wrap:anywhere}
.legend svg{width:28px;height:12px;flex:none}
output{display:block;min-height:1.4em;font-size:.85rem;color:var(--soft);font-variant-numeric:tabular-nums}
details{margin:.3rem 0}
summary{cursor:pointer;color:var(--link);padding:.25rem 0;font-size:.9rem}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.88rem;margin:.4rem 0}
caption{text-align:left;color:var(--soft);padding:.2rem 0}
th,td{text-align:left;padding:.25rem .7rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
.numbers td,.numbers thead th+th{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;padding-left:.7rem;padding-right:.3rem}
.words td{min-width:9rem;max-width:60ch;overflow-wrap:anywhere}
tbody th{font-weight:600;overflow-wrap:break-word;min-width:6rem;max-width:16rem}
.advice{padding-left:1.3rem;margin:0}
.advice li{margin:0 0 .8rem;overflow-wrap:anywhere}
.advice strong{font-weight:600}
code,pre{font:.86em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
code{background:var(--page);border:1px solid var(--line);border-radius:4px;padding:.05em .35em;overflow-wrap:anywhere}
footer{color:var(--soft);font-size:.85rem;padding-bottom:2rem}
@media(min-width:900px){svg text{font-size:10.5px}.facts{grid-template-columns:repeat(auto-fill,minmax(210px,1fr))}}
@media(max-width:500px){header,main,footer{padding:0 8px}section{padding:12px}}
@media print{section{break-inside:avoid}}
)css";

constexpr const char* kScript = R"js(
(function(){
var d=document,N="http://www.w3.org/2000/svg";
function words(v,u){
 if(u==2)return(100*v).toPrecision(4)+"%";
 if(u==1){var i=0;while(v>=1024&&i<4){v/=1024;i++}return v.toPrecision(4)+" "+["B","KiB","MiB","GiB","TiB"][i]}
 return Math.abs(v)>=1e4?Math.round(v).toLocaleString("en"):String(+v.toPrecision(4))}
d.querySelectorAll("svg.plot").forEach(function(s){
 function two(a){return s.getAttribute(a).split(" ").map(Number)}
 var f=two("data-f"),x=two("data-x"),y=two("data-y"),log=s.getAttribute("data-log")=="1",u=+s.getAttribute("data-u");
 var out=d.createElement("output"),line=d.createElementNS(N,"path"),curves=null;
 out.setAttribute("aria-hidden","true");out.textContent="\u00a0";
 s.after(out);line.setAttribute("class","cross");s.appendChild(line);
 function read(){
  var by=Object.create(null);
  s.querySelectorAll("polyline:not(.faint)").forEach(function(p){
   var n=p.getAttribute("data-n");
   (by[n]=by[n]||[]).push.apply(by[n],p.getAttribute("points").split(" ").map(function(q){return q.split(",").map(Number)}))});
  return by}
 s.addEventListener("pointermove",function(e){
  curves=curves||read();
  var r=s.getBoundingClientRect(),w=s.viewBox.baseVal.width;
  var px=Math.min(f[2],Math.max(f[0],(e.clientX-r.left)*w/r.width));
  var t=(px-f[0])/(f[2]-f[0]),text=s.getAttribute("data-w")+" "+words(Math.round(x[0]+t*(x[1]-x[0])),0);
  for(var n in curves){
   var best=null;
   curves[n].forEach(function(q){if(!best||Math.abs(q[0]-px)<Math.abs(best[0]-px))best=q});
   if(!best||Math.abs(best[0]-px)>(f[2]-f[0])/8)continue;
   var k=(f[3]-best[1])/(f[3]-f[1]);
   text+=" \u00b7 "+n+" "+words(log?y[0]*Math.pow(y[1]/y[0],k):y[0]+k*(y[1]-y[0]),u)}
  line.setAttribute("d","M"+px+" "+f[1]+"V"+f[3]);out.textContent=text});
 s.addEventListener("pointerleave",function(){line.setAttribute("d","");out.textContent="\u00a0"});
});
})();
)js";

std::string variables(int dark) {
  std::string css =
      dark == 0 ? "--page:#f5f6f8;--card:#fff;--text:#16191d;--soft:#555e69;--line:#d9dde3;"
                  "--link:#0a58a8;--focus:#d04a00;"
                : "--page:#0f1215;--card:#171b20;--text:#e8ebef;--soft:#a9b2bd;--line:#343b44;"
                  "--link:#7cc0ff;--focus:#ffb454;";
  for (std::size_t i = 0; i < std::size(kLineColours); ++i)
    css += fmt::format("--s{}:{};", i, kLineColours[i][dark]);
  for (std::size_t i = 0; i < std::size(kAreaColours); ++i)
    css += fmt::format("--p{}:{};", i, kAreaColours[i][dark]);
  return css;
}

}  // namespace

std::string style_sheet() {
  std::string css = fmt::format(
      ":root{{color-scheme:light dark;{}}}\n@media(prefers-color-scheme:dark){{:root{{{}}}}}",
      variables(0),
      variables(1));
  css += kRules;
  for (std::size_t i = 0; i < std::size(kLineColours); ++i)
    css += fmt::format(".s{0}{{stroke:var(--s{0});stroke-dasharray:{1}}}\n", i, kDashes[i]);
  for (std::size_t i = 0; i < std::size(kAreaColours); ++i)
    css += i % 2 == 0 ? fmt::format(".p{0}{{fill:var(--p{0})}}\n", i)
                      : fmt::format(".p{0}{{fill:url(#h{0})}}.f{0}{{fill:var(--p{0})}}\n", i);
  return css;
}

std::string hatchings() {
  std::string svg =
      "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>";
  for (std::size_t i = 1; i < std::size(kAreaColours); i += 2)
    svg += fmt::format(
        "<pattern id=\"h{0}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate({1})\"><rect class=\"f{0}\" width=\"6\" height=\"6\" "
        "stroke=\"none\"/>"
        "<path d=\"M0 3H6\" stroke=\"var(--card)\" stroke-width=\"1\" "
        "opacity=\".55\"/></pattern>",
        i,
        45 + 36 * i);
  return svg + "</defs></svg>\n";
}

std::string readout_script() { return kScript; }

}  // namespace lockstep::report
