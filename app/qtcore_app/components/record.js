// One record: for each variable a button with its role (known, asked, unknown) and a bar with its marginal, layer by layer.
// The roles live here; each change goes out as one packet: u32 number, then a byte for each variable.

const UNKNOWN = 0, TARGET = 128, SET_0 = 253, SET_1 = 254, KNOWN = 255 // known as in the record, or as somebody set it
const isKnown = (role) => role >= SET_0, isSet = (role) => role === SET_0 || role === SET_1
const NEXT = {[KNOWN]: TARGET, [SET_0]: TARGET, [SET_1]: TARGET, [TARGET]: UNKNOWN, [UNKNOWN]: KNOWN}
const WORDS = {[KNOWN]: "known", [SET_0]: "known", [SET_1]: "known", [TARGET]: "asked", [UNKNOWN]: "unknown"}
const CHARTS = 250 // pixels
const JOINT = { // the joint answers that can be shown in the place of the bars: the button's label, and a sentence
  samples: ["New samples", "Six complete records, a column each (filled: 1), and behind them the most probable one."],
  next: ["Ask again", "Bits that the answer to each question would tell about what is asked (its best: ★)."],
}
const CELLS = 7, BEST = 3 // squares of a variable; questions that are named

export function render({model, el}) {
  const V = model.names.length
  let data = parse(model.frames), roles = new Uint8Array(V), runs = 0
  const root = node("div", {class: "qt player record", tabindex: -1})
  const deck = makeDeck(model, () => data, draw, () => false)
  const rows = node("div", {class: "rows"}), charts = node("div", {class: "charts"}), readout = node("div", {class: "readout", role: "status"})
  const key = (role, text, words) => node("span", {}, node("i", {class: "role", "data-role": role, text}), words)
  const legend = node("div", {class: "keys"}, key("known", "1", "known"), key("asked", "?", "asked and scored"), key("unknown", "–", "unknown"),
    node("span", {}, node("i", {class: "tick"}), "truth"), node("span", {class: "runs"}))
  const {head, ask} = makeHead(model, ""), key2 = node("span", {class: "words"})
  const joint = node("div", {class: "joint"}, head, key2)
  root.append(node("div", {class: "main"}, deck.controls, joint, node("div", {class: "about"}, legend, readout), rows), charts)
  const panels = [...model.charts, {inspect: true}].map(panel)
  charts.append(...panels.map((each) => each.block))

  const lines = model.names.map((name, i) => {
    const role = node("button", {type: "button", class: "role", "data-variable": i, onclick: () => change([i], NEXT[roles[i]]), onfocus: () => choose(i)})
    const fills = [node("i", {class: "fill"}), node("i", {class: "fill second"})], tick = node("i", {class: "tick"}), number = node("span", {class: "number"})
    const squares = Array.from({length: CELLS}, () => node("i")), cells = node("span", {class: "cells"}, ...squares)
    const track = node("span", {class: "track"}, ...fills, tick)
    const line = node("div", {class: "line", onclick: () => choose(i)}, role, node("span", {class: "name", text: name}), track, cells, number)
    return {name, role, fills, tick, track, squares, cells, number, line}
  })
  const groups = [] // and what each of them is set to
  for (const [title, start, stop] of model.groups) {
    const block = node("div", {class: stop - start > 20 ? "group long" : "group"})
    const all = Array.from({length: stop - start}, (_, k) => start + k)
    if (title) {
      for (const i of all) lines[i].full = `${title}: ${lines[i].name}`
      const level = node("select", {"aria-label": `set ${title}`, title: `Set ${title} to a value, known from then on`,
        onchange: () => change(all, all.map((i) => level.value === "" ? KNOWN : String(i) === level.value ? SET_1 : SET_0))},
        node("option", {value: "", text: "set …"}), ...all.map((i) => node("option", {value: i, text: lines[i].name})), node("option", {value: "none", text: "none of these"}))
      groups.push({all, level})
      block.append(node("div", {class: "about-group"}, node("button", {type: "button", class: "title", text: title, title: `All of ${title}: known, asked, unknown`,
        onclick: () => change(all, all.every((i) => roles[i] === roles[start]) ? NEXT[roles[start]] : KNOWN)}), level))
    }
    block.append(...all.map((i) => lines[i].line))
    rows.append(block)
  }

  function change(which, role) {
    which.forEach((i, k) => { roles[i] = Array.isArray(role) ? role[k] : role })
    const packet = new Uint8Array(4 + V), seq = nextNumber()
    new DataView(packet.buffer).setUint32(0, seq, true)
    packet.set(roles, 4)
    draw()
    window.dispatchEvent(new CustomEvent("qtcore:packet", {detail: {seq, at: performance.now()}}))
    model.packet = packet.buffer
  }
  function choose(i) { if (model.variable !== i) { model.variable = i; mark(); if (data) inspect() } }
  function mark() { lines.forEach((each, i) => each.line.classList.toggle("chosen", i === model.variable)) }
  const truthOf = (i) => isSet(roles[i]) ? roles[i] - SET_0 : data.truthBytes ? data.truthBytes[i] / 255 : null

  function drawLine(each, i) {
    const word = WORDS[roles[i]], truth = truthOf(i), known = isKnown(roles[i]), values = data.runs.map((run) => known ? truth : valueAt(data, run, deck.cursor, "mean", i))
    each.line.dataset.role = word
    each.role.dataset.role = word; each.role.toggleAttribute("data-set", isSet(roles[i]))
    each.role.textContent = known ? String(Math.round(truth)) : roles[i] === TARGET ? "?" : "–"
    each.role.setAttribute("aria-label", `${each.full ?? each.name}: ${known ? `${each.role.textContent}, ` : ""}${word}`)
    each.line.title = `${each.full ?? each.name}: ${word}; ${data.runs.map((run, r) => `${data.runs.length > 1 ? `${run.label} ` : ""}p = ${pretty(values[r])}`).join(", ")}; truth ${truth}`
    each.fills.forEach((fill, r) => { fill.style.width = `${100 * (values[r] ?? 0)}%`; fill.hidden = r >= values.length })
    each.tick.style.left = `${100 * truth}%`; each.tick.hidden = known
    each.number.textContent = known ? "" : values.map((p) => p.toFixed(2)).join(" ")
    each.number.classList.toggle("off", !known && Math.abs(values[0] - truth) > 0.5)
    each.number.dataset.p = values.map((p) => p.toFixed(3)).join(" ")
    if (model.shown === "samples") drawSquares(each, i)
    else if (model.shown === "next") drawBits(each, i)
  }
  // Joint answers in the place of a bar and its number.
  let drawn = new Uint8Array(0), bits = new Float32Array(0), most = 0, ranked = []
  function take2() {
    drawn = bytesOf(model.samples)
    bits = new Float32Array(bytesOf(model.bits).slice().buffer).map((value) => Math.max(0, value)) // NaN stays
    ranked = [...bits.keys()].filter((i) => !Number.isNaN(bits[i])).sort((a, b) => bits[b] - bits[a])
    most = ranked.length ? bits[ranked[0]] : 0
  }
  function tell(each, text) { each.role.setAttribute("aria-label", `${each.role.getAttribute("aria-label")}; ${text}`); each.line.title += `; ${text}` }
  function drawSquares(each, i) {
    const values = each.squares.map((_, k) => drawn.length ? drawn[k * V + i] : 2)
    each.squares.forEach((square, k) => { square.dataset.value = values[k] })
    const ones = values.slice(0, -1).filter((value) => value === 1).length, complete = !values.includes(2)
    each.number.textContent = complete && !isKnown(roles[i]) ? `${ones}/${CELLS - 1}` : ""
    each.number.classList.remove("off")
    if (complete) tell(each, `1 in ${ones} of ${CELLS - 1} samples, most probable ${values.at(-1)}`)
  }
  function drawBits(each, i) {
    const value = bits.length ? bits[i] : NaN, asked = !Number.isNaN(value)
    each.fills.forEach((fill, r) => { fill.hidden = r > 0; fill.style.width = `${asked && most > 0 ? 100 * value / most : 0}%` })
    each.tick.hidden = true
    each.number.textContent = asked ? value.toFixed(value < 0.0995 ? 3 : 2) : ""
    each.number.classList.remove("off")
    if (asked) tell(each, `its answer would tell ${value.toFixed(3)} bits`)
  }
  function drawJoint() {
    const [label, words] = JOINT[model.shown] ?? ["", ""]
    joint.hidden = !label; ask.textContent = label; key2.textContent = words
    root.dataset.shown = model.shown
    root.classList.toggle("stale", model.stale && model.shown !== "marginals")
    lines.forEach((each, i) => each.line.classList.toggle("best", model.shown === "next" && i === ranked[0] && most > 0))
    if (model.shown === "next" && ranked.length && model.share >= 1 && !model.stale)
      readout.textContent = `Ask next: ${ranked.slice(0, BEST).map((i) => `${lines[i].full ?? lines[i].name} (${bits[i].toFixed(3)} bits)`).join(", then ")}`
  }
  function inspect() {
    const {heading, body} = panels.at(-1), i = model.variable
    if (!(i >= 0 && i < V)) { heading.textContent = "One variable"; nothing(body, "Click a variable."); return }
    const name = lines[i].full ?? lines[i].name
    heading.replaceChildren(name, node("small", {text: ` · truth ${truthOf(i)}`})); heading.title = `The marginal of ${name} after each layer`
    const series = data.runs.map((run, r) => ({label: run.label, colour: SERIES[r], values: Array.from({length: run.count}, (_, k) => valueAt(data, run, k, "mean", i))}))
    plot(body, series, {title: heading.title, low: 0, high: 1, total: deck.total(), cursor: deck.cursor, width: CHARTS, names: data.runs.length > 1, move: deck.move,
      baseline: {label: "", value: truthOf(i)}})
  }
  function count() {
    const asked = lines.map((_, i) => i).filter((i) => roles[i] === TARGET), known = roles.filter(isKnown).length
    const right = (run) => asked.filter((i) => Math.abs(valueAt(data, run, deck.cursor, "mean", i) - truthOf(i)) < 0.5).length
    const result = asked.length ? `; right side of ½: ${data.runs.map((run) => `${data.runs.length > 1 ? `${run.label} ` : ""}${right(run)}`).join(", ")} of ${asked.length}` : ""
    readout.textContent = `${known} known, ${asked.length} asked, ${V - known - asked.length} unknown${result}`
  }
  function draw() {
    if (!data) return
    if (runs !== data.runs.length) {
      runs = data.runs.length
      root.classList.toggle("pair", runs > 1)
    }
    legend.lastChild.replaceChildren(...(runs > 1 ? data.runs.map((run, r) => node("span", {}, node("i", {class: "run", style: `background:${SERIES[r]}`}), run.label)) : []))
    lines.forEach(drawLine)
    for (const {all, level} of groups) {
      const wanted = all.every((i) => isSet(roles[i])) ? String(all.find((i) => roles[i] === SET_1) ?? "none") : ""
      if (level.value !== wanted) level.value = wanted
      level.toggleAttribute("data-set", wanted !== "")
    }
    for (const each of panels.slice(0, -1)) curve(each, data, deck, CHARTS)
    inspect(); count(); mark(); drawJoint()
    deck.show(root)
  }

  rows.addEventListener("keydown", (event) => { // up and down go from variable to variable
    const at = Number(event.target.dataset?.variable ?? -1), step = {ArrowUp: -1, ArrowDown: 1}[event.key]
    if (at < 0 || !step) return
    event.preventDefault(); lines[Math.max(0, Math.min(V - 1, at + step))].role.focus()
  })
  root.addEventListener("keydown", deck.keys)
  focusWhenSkipped(model, lines[0].role)
  function take(bytes) { if (bytes.length === 4 + V) roles = bytes.slice(4) } // u32 number, roles
  take2()
  for (const name of ["samples", "bits"]) model.on(name, () => { take2(); draw() })
  for (const name of ["shown", "stale"]) model.on(name, draw)
  model.on("share", () => { if (model.share >= 1) draw() })
  take(bytesOf(model.given))
  take(bytesOf(model.packet)) // what was changed since; empty when Python gave something later
  model.on("given", () => { take(bytesOf(model.given)); draw() })
  model.on("frames", () => {
    const next = parse(model.frames)
    if (!next || (data && next.seq < data.seq)) return
    data = next
    deck.arrived(); draw()
    window.dispatchEvent(new CustomEvent("qtcore:frames", {detail: {seq: data.seq, count: deck.last() + 1, done: deck.last() >= deck.total(), at: performance.now()}}))
  })
  model.on("variable", () => { mark(); if (data) inspect() })
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark)
  draw(); dark()
  return root
}
