// A small line chart as SVG, with a cursor that can be dragged.

const SVG = "http://www.w3.org/2000/svg"
function shape(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  if (text !== undefined) made.textContent = text
  return made
}

function tickLabel(v, log) {
  if (log) { const e = Math.round(Math.log10(v)); return e >= -2 && e <= 3 ? String(Number(v.toPrecision(1))) : `1e${e}` }
  return Math.abs(v) >= 100 ? v.toFixed(0) : Number(v.toPrecision(3)).toString()
}

function plot(body, series, options) {
  const {log = false, total, cursor, width, names = false, note = "", move} = options
  const baselines = [options.baseline ?? []].flat().toSorted((a, b) => b.value - a.value), labelled = baselines.some((each) => each.label)
  const height = names ? 135 : 150, left = 36, right = 8, top = 8 + (labelled ? 12 : 0), bottom = 20
  const svg = shape("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": options.title ?? "over the layers", style: `height:${height}px`})
  const usable = (v) => v !== null && v !== undefined && (!log || v > 0)
  let values = series.flatMap((each) => each.values.filter(usable))
  values.push(...baselines.map((each) => each.value))
  if (!values.length) values = [1] // such as a residual of 0 on a logarithmic axis
  let low = options.low ?? Math.min(...values), high = options.high ?? Math.max(...values)
  if (log) {
    low = Math.max(low, 1e-7); high = Math.max(high, low)
    low = 10 ** Math.floor(Math.log10(low)); high = 10 ** Math.ceil(Math.log10(high)); if (low === high) high *= 10
  } else if (options.low === undefined || options.high === undefined) {
    const middle = (low + high) / 2, least = 0.01 * Math.abs(middle) || 1 // a curve that hardly moves should look so
    if (high - low < least) { if (options.low === undefined) low = middle - least / 2; if (options.high === undefined) high = middle + least / 2 }
    const pad = (high - low) * 0.06
    if (options.low === undefined) low -= pad
    if (options.high === undefined) high += pad
  }
  const scaleY = (v) => { const f = log ? (Math.log10(Math.max(v, low)) - Math.log10(low)) / (Math.log10(high) - Math.log10(low)) : (v - low) / (high - low)
    return height - bottom - Math.max(0, Math.min(1, f)) * (height - top - bottom) }
  const scaleX = (k) => left + k / Math.max(total, 1) * (width - left - right)
  const ticks = []
  if (log) { const step = Math.ceil((Math.log10(high) - Math.log10(low)) / 4); for (let e = Math.round(Math.log10(low)); e <= Math.round(Math.log10(high)); e += step) ticks.push(10 ** e) }
  else {
    const raw = (high - low) / 3, unit = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 2.5, 5, 10].map((m) => m * unit).find((s) => s >= raw)
    for (let v = Math.ceil(low / step) * step; v <= high + 1e-9; v += step) ticks.push(Number(v.toPrecision(6)))
  }
  for (const v of ticks) {
    svg.append(shape("line", {class: "axis", x1: left, x2: width - right, y1: scaleY(v), y2: scaleY(v)}),
      shape("text", {x: left - 5, y: scaleY(v) + 3.5, "text-anchor": "end"}, tickLabel(v, log)))
  }
  for (const k of [0, Math.round(total / 2), total]) svg.append(shape("text", {x: scaleX(k), y: height - 6, "text-anchor": k === 0 ? "start" : k === total ? "end" : "middle"}, k === 0 ? "layer 0" : k))
  for (const each of series) {
    if (each.band) {
      const up = each.values.map((v, k) => `${scaleX(k)},${scaleY(v + each.band[k])}`), down = each.values.map((v, k) => `${scaleX(k)},${scaleY(v - each.band[k])}`).reverse()
      svg.append(shape("polygon", {points: [...up, ...down].join(" "), style: `fill:${each.colour};fill-opacity:0.18`}))
    }
    let d = ""
    each.values.forEach((v, k) => { if (usable(v)) d += `${d && usable(each.values[k - 1]) ? "L" : "M"}${scaleX(k).toFixed(1)} ${scaleY(v).toFixed(1)}` })
    if (d) svg.append(shape("path", {d, style: `stroke:${each.colour};stroke-width:2;fill:none;stroke-dasharray:${each.dashed ? "3 3" : "none"}`}))
    const now = each.values[Math.min(cursor, each.values.length - 1)]
    if (usable(now)) svg.append(shape("circle", {cx: scaleX(Math.min(cursor, each.values.length - 1)), cy: scaleY(now), r: 3, style: `fill:${each.colour}`}))
  }
  baselines.forEach(({label, value}, i) => { // the label of the highest above its line; of another where there is room
    const y = scaleY(value), room = i === 0 || y - scaleY(baselines[i - 1].value) > 28
    svg.append(shape("line", {class: "baseline", x1: left, x2: width - right, y1: y, y2: y, style: `stroke:#cc79a7;stroke-width:1.600;stroke-dasharray:${i ? "2 3" : "5 3"}`}))
    if (label) svg.append(shape("text", {class: "strong", x: width - right, y: room ? y - 5 : y + 13, "text-anchor": "end"}, `${label} ${pretty(value)}`))
  })
  svg.append(shape("line", {class: "cursor", x1: scaleX(cursor), x2: scaleX(cursor), y1: top, y2: height - bottom}))
  const drag = (event) => {
    const box = svg.getBoundingClientRect()
    move(Math.round((event.clientX - box.left - left * box.width / width) / ((width - left - right) * box.width / width) * total))
  }
  svg.addEventListener("pointerdown", (event) => { event.preventDefault(); drag(event) })
  svg.addEventListener("pointermove", (event) => { if (event.buttons & 1) drag(event) })
  const name = (each) => node("span", {}, node("i", {style: `background:${each.colour}`}), each.label, node("b", {text: each.now ?? ""}))
  body.replaceChildren(...(names ? [node("div", {class: "names"}, ...series.filter((each) => each.label).map(name), node("span", {text: note}))] : []), svg)
}
