// Bars of beliefs beside exact marginals, log Z, the residual of each layer, and the transfer function.

const CHART = 400 // units across each chart
const text = (content, attributes) => { const made = svg("text", attributes); made.textContent = content; return made }

// What beliefs are compared with. Trained parameters answer for the marginals of the true ones, at whatever temperature.
function exactly({shown, set: {temperature}}) {
  return shown || temperature === 1 ? "exact" : temperature === 0 ? "exact max-marginal" : "exact at this T"
}

function drawBars(body, data, cursor) {
  const height = 184, top = 20, bottom = 24, left = 26, n = data.names.length, each = (CHART - left) / n, bar = Math.min(30, each * 0.4)
  const y = (p) => height - bottom - p * (height - top - bottom), parts = []
  for (const p of [0, 0.5, 1]) parts.push(svg("line", {class: "axis", x1: left, x2: CHART, y1: y(p), y2: y(p)}), text(p === 0.5 ? "½" : p, {x: left - 6, y: y(p) + 4, "text-anchor": "end"}))
  data.names.forEach((name, i) => {
    const middle = left + each * (i + 0.5), p = data.beliefs[cursor][i], q = data.exact[i], size = n > 9 ? 8.5 : n > 6 ? 11 : 12, brief = (v) => n > 6 ? fixed(v).replace(/^0(?=.)|\.00$/g, "") : fixed(v)
    parts.push(svg("rect", {class: "belief", x: middle - bar, y: y(p), width: bar - 1, height: Math.max(0, y(0) - y(p)), "data-belief": i}),
      svg("rect", {class: "exact", x: middle + 1, y: y(q), width: bar - 1, height: Math.max(0, y(0) - y(q)), "data-exact": i}),
      text(brief(p), {class: "strong", x: middle - bar / 2, y: y(p) - 4, "text-anchor": "middle", style: `font-size:${size}px`}),
      text(brief(q), {class: "strong", x: middle + bar / 2 + 1, y: y(q) - 4, "text-anchor": "middle", style: `font-size:${size}px`}),
      text(label(name) + (data.evidence[i] >= 0 ? `${n > 9 ? "=" : " = "}${data.evidence[i]}` : ""), {class: "strong", x: middle, y: height - 7, "text-anchor": "middle", style: n > 9 ? "font-size:11px" : ""}))
  })
  body.replaceChildren(svg("svg", {class: "chart bars", viewBox: `0 0 ${CHART} ${height}`, role: "img", "aria-label": `beliefs beside ${exactly(data)}`}, ...parts))
}

// log Z of the parameters that are shown: what the messages of this layer say, and what enumeration says.
function drawLogZ(body, data, cursor) {
  const estimate = data.bethe ? [node("b", {text: fixed(data.bethe[cursor], 3), "data-log-z": "bethe"})] : ["needs T = 1"]
  body.replaceChildren(node("span", {text: "log Z"}), node("span", {}, "Bethe ", ...estimate), node("span", {}, "exact ", node("b", {text: fixed(data.log_z, 3), "data-log-z": "exact"})))
}

function drawResidual(body, data, cursor, move) {
  const height = 146, top = 8, bottom = 22, left = 40, right = 8, low = -9, high = 2, total = data.hand >= 0 ? Math.max(data.sent.length, 10) : data.residual.length - 1
  const x = (k) => left + k / total * (CHART - left - right)
  const y = (v) => top + (high - Math.max(low, Math.min(high, Math.log10(Math.max(v, 1e-12))))) / (high - low) * (height - top - bottom)
  const parts = []
  for (const e of [2, 0, -2, -4, -6, -8]) parts.push(svg("line", {class: e === -6 ? "limit" : "axis", x1: left, x2: CHART - right, y1: y(10 ** e), y2: y(10 ** e)}),
    text(e === 0 ? "1" : e === 2 ? "100" : `1e${e}`.replace("-", "−"), {x: left - 6, y: y(10 ** e) + 4, "text-anchor": "end"}))
  parts.push(text("converged below", {x: CHART - right, y: y(1e-6) + 13, "text-anchor": "end"}))
  const marks = [...new Set([0, Math.round(total / 2), total])]
  for (const k of marks) parts.push(text(k === 0 ? (data.hand >= 0 ? "sent 0" : "layer 0") : k, {x: x(k), y: height - 6, "text-anchor": k === 0 ? "start" : k === total ? "end" : "middle"}))
  const first = data.hand >= 0 ? 0 : 1, points = data.residual.map((v, k) => [x(k), y(v)]).slice(first)
  parts.push(svg("polyline", {class: "curve", points: points.map((p) => p.map((c) => c.toFixed(1)).join(",")).join(" ")}))
  parts.push(svg("line", {class: "cursor", x1: x(cursor), x2: x(cursor), y1: top, y2: height - bottom}))
  if (cursor >= first) parts.push(svg("circle", {class: "spot", cx: x(cursor), cy: y(data.residual[cursor]), r: 4}))
  const made = svg("svg", {class: "chart residual", viewBox: `0 0 ${CHART} ${height}`, role: "img", "aria-label": "residual of each layer"}, ...parts)
  const go = (event) => { const box = made.getBoundingClientRect(); move(Math.round(((event.clientX - box.left) / box.width * CHART - left) / (CHART - left - right) * total)) }
  made.addEventListener("pointerdown", (event) => { event.preventDefault(); go(event) })
  made.addEventListener("pointermove", (event) => { if (event.buttons & 1) go(event) })
  body.replaceChildren(made)
}

function drawTransfer(body, data, message) {
  const height = 178, top = 6, bottom = 20, left = 28, right = 8, reach = 6, tall = 4, {x: xs, now, zero, one} = data.curves
  const x = (v) => left + (Math.max(-reach, Math.min(reach, v)) + reach) / (2 * reach) * (CHART - left - right)
  const y = (v) => top + (tall - Math.max(-tall, Math.min(tall, v))) / (2 * tall) * (height - top - bottom)
  const curve = (values, name) => svg("polyline", {class: name, points: values.map((v, i) => `${x(xs[i]).toFixed(1)},${y(v).toFixed(1)}`).join(" ")})
  const parts = []
  for (const v of [-4, -2, 0, 2, 4]) parts.push(svg("line", {class: v ? "axis" : "axis zero", x1: left, x2: CHART - right, y1: y(v), y2: y(v)}), text(fixed(v, 0), {x: left - 6, y: y(v) + 4, "text-anchor": "end"}))
  for (const v of [-6, -3, 0, 3, 6]) parts.push(svg("line", {class: v ? "axis" : "axis zero", x1: x(v), x2: x(v), y1: top, y2: height - bottom}), text(fixed(v, 0), {x: x(v), y: height - 5, "text-anchor": "middle"}))
  parts.push(curve(zero, "curve zero"), curve(one, "curve one"), curve(now, "curve"))
  if (message?.x.length === 1) { // a third-order factor has two cavities
    const [at] = message.x
    parts.push(svg("line", {class: "cursor", x1: x(at), x2: x(at), y1: y(0), y2: y(message.f)}), svg("line", {class: "cursor", x1: x(0), x2: x(at), y1: y(message.f), y2: y(message.f)}),
      svg("circle", {class: "spot", cx: x(at), cy: y(message.f), r: 5}))
  }
  body.replaceChildren(svg("svg", {class: "chart transfer", viewBox: `0 0 ${CHART} ${height}`, role: "img", "aria-label": "transfer function"}, ...parts))
}
