// The address bar holds the state of the page. A new state takes the place of the old one: going back leaves the app.
// And when the server cannot be reached any more, a sentence says so.

export function render({model, view}) {
  const lost = node("div", {class: "qt lost", role: "alert", hidden: true,
    text: "The connection to the server is lost: nothing you do here is answered. Reload the page to go on from this address."})
  const show = () => { if (model.query) window.history.replaceState(window.history.state, "", window.location.pathname + model.query + window.location.hash) }
  view.model.document.on_event("connection_lost", () => { lost.hidden = false })
  view.model.document.on_event("client_reconnected", () => { lost.hidden = true })
  model.on("query", show)
  return lost
}
