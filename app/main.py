"""The app's only page so far. Served by `make app`, that is `panel serve app/`, at http://localhost:5006."""

import panel as pn
import panel_material_ui as pmui

pn.extension()

pmui.Page(
    title="qtcore",
    main=[
        pmui.Typography("The app is not here yet", variant="h4"),
        pmui.Typography(
            "This page will let you hide parts of a picture and watch belief propagation fill them in, layer by layer. "
            "Until then, the library works without it: see the README."
        ),
    ],
).servable()
