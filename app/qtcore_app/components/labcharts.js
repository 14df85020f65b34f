// Bars of beliefs beside exact marginals, the residual of each layer, the transfer function, and one message in numbers.

const CHART = 400 // units across each chart
const text = (content, attributes) => { const made = svg("text", attributes); made.textContent = content; return made }

// What beliefs are compared with. Trained parameters answer for the marginals of the true ones, at whatever temperature.
function exactly({shown, set: {temperature}}) {
  return shown || temperature === 1 ? "exact" : temperature === 0 ? "exact max-marginal" : "exact at this T"
}

function drawBars(body, data, cursor) {
  const height = 196, top = 20, bottom = 24, left = 26, n = data.names.length, each = (CHART - left) / n, bar = Math.min(30, each * 0.4)
  const y = (p) => height - bottom - p * (height - top - bottom), parts = []
  for (const p of [0, 0.5, 1]) parts.push(svg("line", {class: "axis", x1: left, x2: CHART, y1: y(p), y2: y(p)}), text(p === 0.5 ? "½" : p, {x: left - 6, y: y(p) + 4, "text-anchor": "end"}))
  data.names.forEach((name, i) => {
    const middle = left + each * (i + 0.5), p = data.beliefs[cursor][i], q = data.exact[i], size = n > 6 ? 11 : 12, brief = (v) => n > 6 ? fixed(v).replace(/^0(?=.)|\.00$/g, "") : fixed(v)
    parts.push(svg("rect", {class: "belief", x: middle - bar, y: y(p), width: bar - 1, height: Math.max(0, y(0) - y(p)), "data-belief": i}),
      svg("rect", {class: "exact", x: middle + 1, y: y(q), width: bar - 1, height: Math.max(0, y(0) - y(q)), "data-exact": i}),
      text(brief(p), {class: "strong", x: middle - bar / 2, y: y(p) - 4, "text-anchor": "middle", style: `font-size:${size}px`}),
      text(brief(q), {class: "strong", x: middle + bar / 2 + 1, y: y(q) - 4, "text-anchor": "middle", style: `font-size:${size}px`}),
      text(label(name) + (data.evidence[i] >= 0 ? ` = ${data.evidence[i]}` : ""), {class: "strong", x: middle, y: height - 7, "text-anchor": "middle"}))
  })
  body.replaceChildren(svg("svg", {class: "chart bars", viewBox: `0 0 ${CHART} ${height}`, role: "img", "aria-label": `beliefs beside ${exactly(data)}`}, ...parts))
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
  const height = 192, top = 6, bottom = 20, left = 28, right = 8, reach = 6, tall = 4, {x: xs, now, zero, one} = data.curves
  const x = (v) => left + (Math.max(-reach, Math.min(reach, v)) + reach) / (2 * reach) * (CHART - left - right)
  const y = (v) => top + (tall - Math.max(-tall, Math.min(tall, v))) / (2 * tall) * (height - top - bottom)
  const curve = (values, name) => svg("polyline", {class: name, points: values.map((v, i) => `${x(xs[i]).toFixed(1)},${y(v).toFixed(1)}`).join(" ")})
  const parts = []
  for (const v of [-4, -2, 0, 2, 4]) parts.push(svg("line", {class: v ? "axis" : "axis zero", x1: left, x2: CHART - right, y1: y(v), y2: y(v)}), text(fixed(v, 0), {x: left - 6, y: y(v) + 4, "text-anchor": "end"}))
  for (const v of [-6, -3, 0, 3, 6]) parts.push(svg("line", {class: v ? "axis" : "axis zero", x1: x(v), x2: x(v), y1: top, y2: height - bottom}), text(fixed(v, 0), {x: x(v), y: height - 5, "text-anchor": "middle"}))
  parts.push(curve(zero, "curve zero"), curve(one, "curve one"), curve(now, "curve"))
  if (message) parts.push(svg("line", {class: "cursor", x1: x(message.x), x2: x(message.x), y1: y(0), y2: y(message.f)}), svg("line", {class: "cursor", x1: x(0), x2: x(message.x), y1: y(message.f), y2: y(message.f)}),
    svg("circle", {class: "spot", cx: x(message.x), cy: y(message.f), r: 5}))
  body.replaceChildren(svg("svg", {class: "chart transfer", viewBox: `0 0 ${CHART} ${height}`, role: "img", "aria-label": "transfer function"}, ...parts))
}

// Which message the formula speaks of, and from which frame: how it came to be, or what it would become.
function spoken(data, cursor) {
  if (data.selected[0] !== "m") return null
  const d = Number(data.selected.slice(1)), hand = data.hand >= 0
  const came = cursor > 0 && (!hand || data.sent[cursor - 1] === d), k = came ? cursor - 1 : cursor
  const {damping} = data.set, f = data.fresh[k][d], old = data.messages[k][d]
  return {d, k, came, hand, x: data.cavity[k][d], f, old, new: came ? data.messages[cursor][d] : (1 - damping) * f + damping * old}
}

const sub = (name) => { const made = node("i"); made.append(name[0], node("sub", {text: name.slice(1)})); return made }
const sum = (values) => values.map((v, n) => n ? (v < 0 ? `− ${fixed(-v)}` : `+ ${fixed(v)}`) : fixed(v)).join(" ")
const incoming = (data, i) => data.edges.flatMap(([a, b], e) => [[2 * e, a, b], [2 * e + 1, b, a]]).filter(([, , b]) => b === i)

function beliefInNumbers(body, data, cursor, i) {
  const name = data.names, others = incoming(data, i), row = (step, ...parts) => node("div", {}, node("span", {class: "step", text: step}), ...parts)
  const head = node("div", {class: "how"}, "Belief of ", sub(name[i]), data.hand >= 0 ? ` after ${cursor} sent` : ` in layer ${cursor}`)
  const T = data.shown ? 1 : data.set.temperature, best = T === 0
  const exact = row("exact", best ? "the best of all 2" : "all 2", node("sup", {text: name.length}), best ? " states, with a 1 and with a 0: " : T < 1 ? " states added up, at this T: " : " states added up: ",
    node("b", {text: fixed(data.exact[i], 3)}))
  if (data.evidence[i] >= 0) { body.replaceChildren(head, row("observed", sub(name[i]), ` = ${data.evidence[i]}, so its belief is fixed`), node("div"), exact); return }
  const terms = node("span", {}, node("i", {text: "b"}), node("sub", {text: short(name[i])}))
  if (others.length > 3) terms.append(" + Σ", node("sub", {text: "k"}), " ", node("i", {text: "m"}), node("sub", {text: `k→${short(name[i])}`}))
  else for (const [, a] of others) terms.append(" + ", node("i", {text: "m"}), node("sub", {text: `${short(name[a])}→${short(name[i])}`}))
  const values = [data.biases[i], ...others.map(([d]) => data.messages[cursor][d])], total = values.reduce((a, b) => a + b)
  body.replaceChildren(head, row("log-odds", terms, ` = ${sum(values)} = `, node("b", {text: fixed(total)})),
    row("belief", `σ(${fixed(total)}) = 1 / (1 + e`, node("sup", {text: fixed(-total)}), ") = ", node("b", {text: fixed(data.beliefs[cursor][i], 3)})), exact)
}

function formula(body, data, message, cursor) {
  if (data.selected[0] === "n") { beliefInNumbers(body, data, cursor, data.node); return }
  if (!message) {
    body.replaceChildren(node("div", {class: "how", text: "Set this coupling with its slider on the left."}),
      node("div", {text: "Positive: the two want to be equal. Negative: they want to differ."}), node("div", {text: "Click an arrow to send that one message and to see its numbers here."}), node("div"))
    return
  }
  const {d, k, came, hand, x, f, old} = message, [i, j] = data.edges[d >> 1], [from, to] = d % 2 ? [j, i] : [i, j], {temperature: T, damping} = data.set
  const name = data.names, w = data.couplings[d >> 1]
  const m = (a, b) => { const made = node("i", {text: "m"}); made.append(node("sub", {text: `${short(name[a])}→${short(name[b])}`})); return made }
  const how = came ? (hand ? "sent by hand" : `in layer ${k + 1}`) : hand ? "if you send it now" : "in the next layer"
  const head = node("div", {class: "how"}, "Message ", sub(name[from]), " → ", sub(name[to]), ` ${how}`)
  const cavity = node("div", {}, node("span", {class: "step", text: "cavity"}), node("i", {text: "x"}), " = ")
  if (data.evidence[from] >= 0) cavity.append(`${fixed(x)}, because `, sub(name[from]), ` was observed as ${data.evidence[from]}`)
  else {
    const others = incoming(data, from).filter(([, a]) => a !== to)
    cavity.append(node("i", {text: "b"}), node("sub", {text: short(name[from])}))
    for (const [, a, b] of others) cavity.append(" + ", m(a, b))
    cavity.append(` = ${sum([data.biases[from], ...others.map(([o]) => data.messages[k][o])])} = `, node("b", {text: fixed(x)}))
  }
  const passed = node("div", {}, node("span", {class: "step", text: "transfer"}), node("i", {text: "f"}), node("sub", {text: "w"}), "(", node("i", {text: "x"}), "; ", node("i", {text: "T"}), ") with ",
    node("i", {text: "w"}), ` = ${fixed(w)}, `, node("i", {text: "T"}), ` = ${fixed(T)}: `, node("b", {text: fixed(f, 3)}))
  const result = node("div", {}, node("span", {class: "step", text: "message"}), m(from, to), damping
    ? ` = (1 − ${fixed(damping)}) · ${fixed(f, 3)} + ${fixed(damping)} · ${fixed(old, 3)} = ` : " = ", node("b", {text: fixed(message.new, 3)}), came ? ` (before: ${fixed(old, 3)})` : ` (now: ${fixed(old, 3)})`)
  body.replaceChildren(head, cavity, passed, result)
}
