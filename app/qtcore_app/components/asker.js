// One record of a trained table: for each column a button with its role (known, asked, unknown), a value to set, and what the
// model answers: bars for its levels, samples, or what its answer would tell. The record lives here; each change goes out as
// one packet: its number, and a role and a value for each column.

const UNKNOWN = 0, ASKED = 1, KNOWN = 2
const ROLES = ["unknown", "asked", "known"], SIGNS = ["–", "?", "✓"]
const BARS = 10 // levels of a column that are drawn
const JOINT = { // the joint answers that can be shown in the place of the bars: the button's label, and a sentence
  samples: ["New samples", "Six complete records, each drawn jointly: the first value of every column is one of them, and so on. In bold the most probable record."],
  next: ["Ask again", "Bits that the answer to each question would tell about what is asked (the best: ★)."],
}
const short = (number) => Math.abs(number) >= 1e5 || (number !== 0 && Math.abs(number) < 1e-3) ? number.toExponential(2) : String(Number(number.toPrecision(4)))

export function render({model, el}) {
  const V = model.columns.length, root = node("div", {class: "qt asker", tabindex: -1})
  let cells = [], truth = [], data = null, serial = 0
  const title = node("h3"), readout = node("span", {class: "readout", role: "status"}), press = (...words) => { model.action = [nextNumber(), ...words] }
  const plain = (text, word, about) => node("button", {type: "button", text, title: about, onclick: () => press(word)})
  const {head, ask} = makeHead(model, ""), hint = node("span", {class: "hint"}), joint = node("div", {class: "joint"}, head, hint)
  const key = (role, words) => node("span", {}, node("i", {class: "role", "data-role": ROLES[role], text: SIGNS[role]}), words)
  const top = node("div", {class: "top"}, title, plain("Next row", "next row", "Another row that was held out of the training"), plain("Nothing known", "nothing known", "A record of which nothing is known"))
  const legend = node("div", {class: "keys"}, key(KNOWN, "known"), key(ASKED, "asked"), key(UNKNOWN, "unknown, summed out"), node("span", {}, node("b", {text: "◂"}), " as in the table"), readout)
  const rows = node("div", {class: "rows"})
  const making = node("span", {class: "hint", role: "status"})
  const files = node("div", {class: "files"}, plain("Download the model", "model", "A safetensors file with the schema, for qtcore.load"), plain("Download the table, gaps filled", "filled", "A CSV file: each gap by itself, the likeliest level or the expected number"), making)
  root.append(top, legend, joint, rows, files)

  const lines = model.columns.map((column, i) => {
    const role = node("button", {type: "button", class: "role", "data-column": i, onclick: () => turn(i)})
    const value = column.number
      ? node("input", {type: "number", step: "any", placeholder: "not known", "aria-label": `value of ${column.name}`, onchange: () => set(i, value.value === "" || !Number.isFinite(value.valueAsNumber) ? null : value.valueAsNumber)})
      : node("select", {"aria-label": `value of ${column.name}`, onchange: () => set(i, value.value === "" ? null : Number(value.value))},
        node("option", {value: "", text: "not known"}), ...column.states.map((text, k) => node("option", {value: k, text})))
    const body = node("div", {class: "body"}), name = node("span", {class: "name", text: column.name, title: column.name})
    const block = node("div", {class: "cell", role: "group", "aria-label": column.name}, node("div", {class: "line"}, role, name, value), body)
    rows.append(block)
    return {column, role, value, body, block}
  })

  function first(i) { // a value for a cell that is to be known: that of the table, or the likeliest
    const {column} = lines[i], answer = data?.columns[i]
    if (cells[i][1] !== null) return cells[i][1]
    if (column.number) return answer ? answer.median : null
    return truth[i] ?? (answer ? answer.p.indexOf(Math.max(...answer.p)) : 0)
  }
  function turn(i) {
    const next = {[KNOWN]: ASKED, [ASKED]: UNKNOWN, [UNKNOWN]: KNOWN}[cells[i][0]], value = first(i)
    change(i, next === KNOWN && value === null ? [ASKED, null] : [next, value])
  }
  function set(i, value) { change(i, value === null ? [UNKNOWN, null] : [KNOWN, value]) }
  function change(i, cell) {
    cells[i] = cell
    const seq = nextNumber()
    draw()
    window.dispatchEvent(new CustomEvent("qtcore:packet", {detail: {seq, at: performance.now()}}))
    model.packet = [seq, cells.map((each) => [...each])]
  }

  function bars({column}, i, answer) {
    const p = answer.p, true_ = truth[i], all = p.map((_, k) => k)
    const kept = p.length <= BARS ? all : all.toSorted((a, b) => p[b] - p[a]).slice(0, BARS - 1).concat(true_ ?? []).filter((k, n, each) => each.indexOf(k) === n).sort((a, b) => a - b)
    const made = kept.map((k) => node("div", {class: "bar", "data-true": String(k === true_), title: `${column.states[k]}: ${p[k].toFixed(3)}${k === true_ ? ", as in the table" : ""}`},
      node("span", {class: "level", text: column.states[k]}), node("span", {class: "track"}, node("i", {class: "fill", style: `width:${100 * p[k]}%`})),
      node("span", {class: "number", text: `${p[k].toFixed(2)}${k === true_ ? " ◂" : ""}`})))
    const rest = p.length - kept.length
    if (rest) made.push(node("div", {class: "bar more"}, node("span", {class: "level", text: `${rest} more`}), node("span"), node("span", {class: "number", text: Math.max(0, 1 - kept.reduce((sum, k) => sum + p[k], 0)).toFixed(2)})))
    return made
  }
  function numbers(answer) { return `mean ${short(answer.mean)}; one in ten is below ${short(answer.q10)}, half below ${short(answer.median)}, one in ten above ${short(answer.q90)}` }
  function brief({column}, answer) {
    const best = answer.p.indexOf(Math.max(...answer.p))
    return column.number ? `about ${short(answer.mean)} (${short(answer.q10)} to ${short(answer.q90)})` : `${column.states[best]} (${answer.p[best].toFixed(2)})`
  }
  function drawCell(each, i, best) {
    const [role, value] = cells[i], answer = data?.columns[i] ?? null, parts = []
    each.block.dataset.role = each.role.dataset.role = ROLES[role]
    each.role.textContent = SIGNS[role]; each.role.setAttribute("aria-label", `${each.column.name}: ${ROLES[role]}`); each.role.title = `${ROLES[role]}; press to change`
    const wanted = role === KNOWN && value !== null ? String(value) : ""
    const typing = each.value === root.getRootNode().activeElement // an answer that arrives must not undo what is being typed
    if (each.value.value !== wanted && !typing) each.value.value = wanted
    each.block.classList.toggle("best", i === best)
    if (role !== KNOWN && model.shown === "samples") {
      const drawn = model.samples[i] ?? []
      parts.push(node("div", {class: "drawn"}, ...drawn.map((word, k) => node(k === drawn.length - 1 ? "b" : "span", {text: word || "…"}))))
    } else if (model.shown === "next" && typeof model.bits[i] === "number") {
      const most = Math.max(...model.bits.filter((bit) => typeof bit === "number"), 1e-9)
      parts.push(node("div", {class: "bar bit"}, node("span", {class: "level", text: "would tell"}), node("span", {class: "track"}, node("i", {class: "fill", style: `width:${100 * Math.max(0, model.bits[i]) / most}%`})), node("span", {class: "number", text: `${Math.max(0, model.bits[i]).toFixed(3)} bits`})))
    } else if (role === ASKED && answer) {
      parts.push(...bars(each, i, answer))
      if (each.column.number) parts.push(node("div", {class: "numbers", text: numbers(answer)}))
    } else if (role === UNKNOWN && answer) parts.push(node("div", {class: "brief", text: brief(each, answer)}))
    each.body.replaceChildren(...parts)
  }
  function draw() {
    if (!cells.length) return
    const [label, words] = JOINT[model.shown] ?? ["", ""], ranked = model.shown === "next" && !model.stale && model.share >= 1
      ? model.bits.map((bit, i) => [typeof bit === "number" ? bit : -1, i]).filter(([bit]) => bit >= 0).sort((a, b) => b[0] - a[0]) : []
    joint.hidden = !label; ask.textContent = label; hint.textContent = words
    root.dataset.shown = model.shown
    root.classList.toggle("stale", model.stale && model.shown !== "answers")
    lines.forEach((each, i) => drawCell(each, i, ranked.length && ranked[0][0] > 0 ? ranked[0][1] : -1))
    const asked = cells.filter(([role]) => role === ASKED).length
    const scored = data && data.bits !== null ? `; ${data.bits.toFixed(2)} bits per asked cell that the table has` : ""
    readout.textContent = ranked.length ? `Ask next: ${ranked.slice(0, 3).map(([bit, i]) => `${lines[i].column.name} (${bit.toFixed(3)} bits)`).join(", then ")}`
      : `${cells.filter(([role]) => role === KNOWN).length} known, ${asked} asked, ${cells.filter(([role]) => role === UNKNOWN).length} unknown${scored}`
  }
  rows.addEventListener("keydown", (event) => { // up and down go from column to column
    const at = Number(event.target.dataset?.column ?? -1), step = {ArrowUp: -1, ArrowDown: 1}[event.key]
    if (at < 0 || !step) return
    event.preventDefault(); lines[Math.max(0, Math.min(V - 1, at + step))].role.focus()
  })
  function take(first) {
    const given = model.given ? JSON.parse(model.given) : null
    if (!given || given.serial === serial) return
    serial = given.serial; cells = given.cells.map((each) => [...each]); truth = given.truth; title.textContent = given.title
    if (first && Array.isArray(model.packet)) cells = model.packet[1].map((each) => [...each]) // what was changed since
  }
  function hear() {
    const next = model.answers ? JSON.parse(model.answers) : null
    if (!next || (data && next.seq < data.seq)) return
    data = next; root.dataset.seq = data.seq
    window.dispatchEvent(new CustomEvent("qtcore:frames", {detail: {seq: data.seq, count: 1, done: true, at: performance.now()}}))
  }
  function save() {
    const file = new Blob([bytesOf(model.file).slice(4)], {type: "application/octet-stream"})
    const address = URL.createObjectURL(file), link = node("a", {href: address, download: model.file_name})
    link.click()
    setTimeout(() => URL.revokeObjectURL(address), 10000)
  }
  model.on("given", () => { take(false); draw() })
  model.on("answers", () => { hear(); draw() })
  model.on("file", save)
  model.on("making", () => { making.textContent = model.making })
  for (const name of ["shown", "stale", "samples", "bits", "share"]) model.on(name, draw)
  focusWhenSkipped(model, lines[0].role)
  const dark = () => root.classList.toggle("dark", isDark(el))
  watchTheme(model, dark)
  take(true); hear(); draw(); dark()
  if (isNarrow()) setTimeout(() => root.scrollIntoView({block: "start"}), 300) // it is below all else there
  return root
}
