#include "market/backtest/report/report_parts.h"

namespace sluice::market::page {

const char* const kStyle = R"css(
:root{color-scheme:light dark;--page:#f3f5f7;--surface:#fff;--raised:#f7f9fb;--edge:#dbe2e8;
--text:#16212b;--muted:#566573;--accent:#0a7285;--other:#c26a00;--grid:#e3e8ed;--good:#00704f;
--bad:#b3300a;--up:0 128 92;--down:200 70 20;--warn:#fbeed3;--warn-text:#6a4000}
@media(prefers-color-scheme:dark){:root{--page:#0b1015;--surface:#131a21;--raised:#18212a;
--edge:#232e39;--text:#e7eef4;--muted:#93a4b3;--accent:#4cc3d6;--other:#f1b54a;--grid:#202b35;
--good:#3fcb9f;--bad:#ff8659;--up:40 190 145;--down:245 110 60;--warn:#362a10;--warn-text:#f5d08a}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1120px;margin:0 auto;padding:20px 16px 48px}
header{margin:8px 0 18px}h1{font-size:26px;line-height:1.2;margin:0 0 4px;letter-spacing:-.01em}
header p{margin:0;color:var(--muted)}
section{background:var(--surface);border:1px solid var(--edge);border-radius:12px;
padding:16px 18px;margin:14px 0}
h2{font-size:16px;margin:0 0 10px}
.hint{color:var(--muted);font-size:13px;margin:0 0 10px}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:10px;
margin:14px 0;padding:0}
.tile{background:var(--surface);border:1px solid var(--edge);border-radius:12px;padding:12px 14px}
.tile b{display:block;font-size:22px;line-height:1.25;font-variant-numeric:tabular-nums;
font-weight:650;white-space:nowrap}
.tile span{display:block;color:var(--muted);font-size:13px}
.good{color:var(--good)}.bad{color:var(--bad)}
.warn{background:var(--warn);color:var(--warn-text);border-color:transparent}
.chart{position:relative;height:280px;margin:6px 0 26px 64px}
.chart.low{height:150px}
.chart svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible}
.chart path{fill:none;stroke-width:1.6;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.chart .a{stroke:var(--accent)}.chart .b{stroke:var(--other);stroke-width:1.3}
.chart .fall{fill:rgb(var(--down)/.25);stroke:rgb(var(--down))}
.chart .grid{stroke:var(--grid);stroke-width:1}
.y,.x{position:absolute;color:var(--muted);font-size:12px;font-variant-numeric:tabular-nums;
white-space:nowrap}
.y{right:100%;padding-right:8px;transform:translateY(-50%)}
.x{top:100%;padding-top:6px;transform:translateX(-50%)}
.hair{position:absolute;top:0;bottom:0;width:1px;background:var(--muted);display:none}
.read{min-height:22px;margin:0 0 4px;font-size:13px;color:var(--muted);
font-variant-numeric:tabular-nums}
.key i{display:inline-block;width:14px;height:3px;border-radius:2px;margin:0 6px 3px 0;
vertical-align:middle;background:var(--accent)}.key i.o{background:var(--other)}
.key{display:flex;gap:18px;flex-wrap:wrap;font-size:13px;color:var(--muted);margin:0 0 8px}
.wide{overflow-x:auto;margin:0 -4px;padding:0 4px}
.tall{max-height:460px;overflow:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th{font-weight:600;color:var(--muted);text-align:right;padding:5px 8px;white-space:nowrap;
background:var(--surface)}
.tall thead th{position:sticky;top:0;border-bottom:1px solid var(--edge)}
td{text-align:right;padding:5px 8px;white-space:nowrap;border-top:1px solid var(--edge)}
th:first-child,td:first-child{text-align:left}td.l,th.l{text-align:left}
.heat td,.heat th{border:0;padding:0 1px 2px;text-align:center}
.heat td>span{display:block;border-radius:5px;padding:5px 4px;min-width:44px}
.heat th{padding:2px 6px}.heat th:first-child{text-align:right;position:sticky;left:0}
.heat .up{background:rgb(var(--up)/var(--s))}.heat .down{background:rgb(var(--down)/var(--s))}
.heat .best{outline:2px solid var(--text);outline-offset:-2px;font-weight:700}
.heat .year{font-weight:650}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(230px,1fr));gap:2px 26px;margin:0;
font-size:14px}dl div{display:flex;justify-content:space-between;gap:12px;
border-top:1px solid var(--edge);padding:5px 0}dt{color:var(--muted)}dd{margin:0;text-align:right}
ul{margin:0;padding-left:20px}li{margin:4px 0}
footer{color:var(--muted);font-size:13px;margin-top:18px}
@media(max-width:600px){main{padding:12px 10px 32px}section{padding:14px 12px}h1{font-size:22px}
.chart{height:220px;margin-left:52px}.chart.low{height:120px}.tiles{gap:8px;
grid-template-columns:repeat(2,1fr)}.tile{padding:10px 12px}.tile b{font-size:19px}
.x:nth-of-type(even){display:none}}
@media print{body{background:#fff}.tall{max-height:none}section{break-inside:avoid}}
)css";

const char* const kScript = R"js(
for (const chart of document.querySelectorAll('.chart')) {
  const points = JSON.parse(chart.dataset.points), hair = chart.querySelector('.hair');
  const read = chart.previousElementSibling, rest = read.textContent;
  const show = (event) => {
    const box = chart.getBoundingClientRect();
    const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const i = Math.round(part * (points.length - 1));
    hair.style.display = 'block';
    hair.style.left = (100 * i) / (points.length - 1) + '%';
    read.textContent = points[i];
  };
  chart.addEventListener('pointermove', show);
  chart.addEventListener('pointerdown', show);
  chart.addEventListener('pointerleave', () => {
    hair.style.display = 'none';
    read.textContent = rest;
  });
}
)js";

}  // namespace sluice::market::page
