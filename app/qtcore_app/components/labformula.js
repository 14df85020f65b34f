// One message, or one belief, in numbers.

const sub = (name) => { const made = node("i"); made.append(name[0], node("sub", {text: name.slice(1)})); return made }
const sum = (values) => values.map((v, n) => n ? (v < 0 ? `− ${fixed(-v)}` : `+ ${fixed(v)}`) : fixed(v)).join(" ")
const incoming = (messages, i) => [...messages.entries()].filter(([, {to}]) => to === i)
const step = (name, ...parts) => node("div", {}, node("span", {class: "step", text: name}), ...parts)

// Which message the formula speaks of, and from which frame: how it came to be, or what it would become. Within a layer of
// another schedule than flooding a message may depend on others of the same layer, so that it is told what comes next.
function spoken(data, cursor) {
  if (data.selected[0] !== "m") return null
  const d = Number(data.selected.slice(1)), hand = data.hand >= 0, {from, to, others, factor} = messagesOf(data.factors)[d]
  const came = cursor > 0 && (hand ? data.sent[cursor - 1] === d : data.schedule === "flooding"), k = came ? cursor - 1 : cursor
  const {damping} = data.set, f = data.fresh[k][d], old = data.messages[k][d]
  const x = others.map((o) => data.cavity[k][o])
  return {d, k, came, hand, from, to, others, factor, x, f, old, new: came ? data.messages[cursor][d] : (1 - damping) * f + damping * old}
}

function named(data, {from, to}) { // m with its indices
  const made = node("i", {text: "m"})
  made.append(node("sub", {text: `${from.map((i) => short(data.names[i])).join(",")}→${short(data.names[to])}`}))
  return made
}

function beliefInNumbers(body, data, cursor, i) {
  const name = data.names, others = incoming(messagesOf(data.factors), i)
  const head = node("div", {class: "how"}, "Belief of ", sub(name[i]), data.hand >= 0 ? ` after ${cursor} sent` : ` in layer ${cursor}`)
  const T = data.shown ? 1 : data.set.temperature, best = T === 0
  const exact = step("exact", best ? "the best of all 2" : "all 2", node("sup", {text: name.length}), best ? " states, with a 1 and with a 0: " : T < 1 ? " states added up, at this T: " : " states added up: ",
    node("b", {text: fixed(data.exact[i], 3)}))
  if (data.evidence[i] >= 0) { body.replaceChildren(head, step("observed", sub(name[i]), ` = ${data.evidence[i]}, so its belief is fixed`), node("div"), exact); return }
  const terms = node("span", {}, node("i", {text: "b"}), node("sub", {text: short(name[i])}))
  if (others.length > 3) terms.append(" + Σ", node("sub", {text: "k"}), " ", node("i", {text: "m"}), node("sub", {text: `k→${short(name[i])}`}))
  else for (const [, message] of others) terms.append(" + ", named(data, message))
  const values = [data.biases[i], ...others.map(([d]) => data.messages[cursor][d])], total = values.reduce((a, b) => a + b)
  body.replaceChildren(head, step("log-odds", terms, ` = ${sum(values)} = `, node("b", {text: fixed(total)})),
    step("belief", `σ(${fixed(total)}) = 1 / (1 + e`, node("sup", {text: fixed(-total)}), ") = ", node("b", {text: fixed(data.beliefs[cursor][i], 3)})), exact)
}

function factorInWords(body, data) {
  const scope = data.factors[data.factor], [w, ...parts] = data.numbers[data.factor], names = list(scope.map((i) => label(data.names[i])))
  if (scope.length === 2) {
    body.replaceChildren(node("div", {class: "how", text: `Set the coupling of ${names} with its slider.`}),
      node("div", {text: "Positive: the two want to be equal. Negative: they want to differ."}), node("div", {text: "Click an arrow to send that one message and to see its numbers here."}), node("div"))
    return
  }
  const pairs = [[0, 1], [0, 2], [1, 2]].map((pair, k) => `${pair.map((i) => label(data.names[scope[i]])).join(" ")} ${signed(parts[k])}`)
  body.replaceChildren(node("div", {class: "how", text: `Third-order factor of ${names}: w = ${signed(w)}`}),
    node("div", {text: "It scores −w where the number of ones among the three is odd."}),
    node("div", {text: parts.some((v) => v) ? `Within it, for each pair that differs: ${pairs.join(", ")}.` : "Positive: an even number of ones. Negative: an odd one."}), node("div"))
}

function cavityOf(data, message, n) { // what one of the others hears from the rest of the graph
  const {k} = message, i = message.from[n], x = message.x[n], made = node("span")
  if (data.evidence[i] >= 0) { made.append(`${fixed(x)}, because `, sub(data.names[i]), ` was observed as ${data.evidence[i]}`); return made }
  const others = incoming(messagesOf(data.factors), i).filter(([, {factor}]) => factor !== message.factor)
  made.append(node("i", {text: "b"}), node("sub", {text: short(data.names[i])}))
  for (const [, other] of others) made.append(" + ", named(data, other))
  made.append(` = ${sum([data.biases[i], ...others.map(([o]) => data.messages[k][o])])} = `, node("b", {text: fixed(x)}))
  return made
}

function formula(body, data, message, cursor) {
  if (data.selected[0] === "n") { beliefInNumbers(body, data, cursor, data.node); return }
  if (!message) { factorInWords(body, data); return }
  const {k, came, hand, f, old, from, to, factor} = message, {temperature: T, damping} = data.set, name = data.names, [w] = data.numbers[factor]
  const how = came ? (hand ? "sent by hand" : `in layer ${k + 1}`) : hand || data.schedule !== "flooding" ? "if it is sent now" : "in the next layer"
  const head = node("div", {class: "how"}, "Message ", ...from.flatMap((i, n) => n ? [", ", sub(name[i])] : [sub(name[i])]), " → ", sub(name[to]), ` ${how}`)
  const three = from.length === 2
  const cavity = three ? step("cavities", ...from.flatMap((i, n) => [n ? ",  " : "", sub(name[i]), " ", node("b", {text: fixed(message.x[n])})])) : step("cavity", node("i", {text: "x"}), " = ", cavityOf(data, message, 0))
  const passed = three ? step("factor", T === 0 ? "the best" : "the sum", " over both, with ", node("i", {text: "w"}), ` = ${fixed(w)}, `, node("i", {text: "T"}), ` = ${fixed(T)}: `, node("b", {text: fixed(f, 3)}))
    : step("transfer", node("i", {text: "f"}), node("sub", {text: "w"}), "(", node("i", {text: "x"}), "; ", node("i", {text: "T"}), ") with ", node("i", {text: "w"}), ` = ${fixed(w)}, `, node("i", {text: "T"}), ` = ${fixed(T)}: `, node("b", {text: fixed(f, 3)}))
  const result = step("message", named(data, message), damping
    ? ` = (1 − ${fixed(damping)}) · ${fixed(f, 3)} + ${fixed(damping)} · ${fixed(old, 3)} = ` : " = ", node("b", {text: fixed(message.new, 3)}), came ? ` (before: ${fixed(old, 3)})` : ` (now: ${fixed(old, 3)})`)
  body.replaceChildren(head, cavity, passed, result)
}
