package pages

import "perigee/internal/observe/dashboard/html"

// icons are the paths of the icons, drawn in a square of 16.
var icons = map[string]html.HTML{
	"now":       html.F(`<path d="M1.5 8h3l2-5 3.5 10 2-5h2.5"/>`),
	"calls":     html.F(`<path d="M2 4h12M2 8h12M2 12h7"/>`),
	"accounts":  html.F(`<circle cx="8" cy="5.5" r="2.75"/><path d="M2.5 14c.6-2.7 2.7-4.2 5.5-4.2s4.900 1.500 5.500 4.200"/>`),
	"usage":     html.F(`<path d="M2.500 13.500v-4M6.200 13.500v-7M9.800 13.500v-5M13.500 13.500v-11"/>`),
	"models":    html.F(`<path d="M8 1.800 14 5v6l-6 3.200L2 11V5zM2.200 5.100 8 8.200l5.800-3.100M8 8.200v6"/>`),
	"upstreams": html.F(`<path d="M8 14V6M8 6 3 2.500M8 6l5-3.500M8 9.500 3.500 7M8 9.500 12.500 7"/>`),
	"setup":     html.F(`<path d="M5.500 2v3.500M10.500 2v3.500M3.500 5.500h9v2.200a4.500 4.500 0 0 1-9 0zM8 12.200V15"/>`),
	"config":    html.F(`<path d="M2 4.500h6.500M12.500 4.500H14M2 11.500h1.500M7.500 11.500H14"/><circle cx="10.500" cy="4.500" r="2"/><circle cx="5.500" cy="11.500" r="2"/>`),
	"system":    html.F(`<rect x="2" y="2.500" width="12" height="4.500" rx="1"/><rect x="2" y="9" width="12" height="4.500" rx="1"/><path d="M4.500 4.750h.01M4.500 11.250h.01"/>`),
	"theme":     html.F(`<circle cx="8" cy="8" r="5.500"/><path d="M8 2.500a5.500 5.500 0 0 1 0 11z" class="fill"/>`),
	"signout":   html.F(`<path d="M6 2.500H3v11h3M7 8h7M11 5l3 3-3 3"/>`),
	"copy":      html.F(`<rect x="5.500" y="5.500" width="8" height="8" rx="1.500"/><path d="M10.500 5.500v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2"/>`),
	"replay":    html.F(`<path d="M13.500 8a5.500 5.500 0 1 1-1.700-4M13.500 1.800V4.500H10.800"/>`),
	"warn":      html.F(`<path d="M8 2 14.500 13.500h-13zM8 6.500v3.200M8 11.600h.01"/>`),
	"shrink":    html.F(`<path d="M9.500 6.500 14 2M9.500 3v3.500H13M6.500 9.500 2 14M3 9.500h3.500V13"/>`),
	"ok":        html.F(`<circle cx="8" cy="8" r="6"/><path d="m5.300 8.200 1.900 1.900 3.600-4"/>`),
	"file":      html.F(`<path d="M4 1.800h5L12.500 5v9.200H4zM8.800 2v3.300h3.500"/>`),
	"next":      html.F(`<path d="m6 3.500 4.500 4.500L6 12.500"/>`),
	"back":      html.F(`<path d="M10 3.500 5.500 8l4.500 4.500"/>`),
}

// icon draws an icon next to a word of the same meaning.
func icon(name string) html.HTML {
	drawing, ok := icons[name]
	if !ok {
		panic("no icon " + name)
	}
	return html.F(`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">{}</svg>`, drawing)
}

// mark is the sign of perigee.
func mark() html.HTML {
	return html.F(`<svg class="mark" viewBox="0 0 24 24" aria-hidden="true" focusable="false">` +
		`<ellipse cx="12" cy="12" rx="10" ry="5.200" transform="rotate(-32 12 12)"/><circle cx="8.800" cy="13.600" r="2.600" class="planet"/>` +
		`<circle cx="4.100" cy="15.500" r="1.500" class="moon"/></svg>`)
}

// orbit is the drawing on pages that have nothing else to show.
func orbit() html.HTML {
	return html.F(`<svg class="orbit" viewBox="0 0 160 72" aria-hidden="true" focusable="false">` +
		`<ellipse cx="80" cy="36" rx="74" ry="27" transform="rotate(-8 80 36)"/><circle cx="58" cy="39" r="13" class="planet"/>` +
		`<circle cx="13" cy="52" r="4" class="moon"/><circle cx="130" cy="14" r="1.500" class="star"/>` +
		`<circle cx="104" cy="60" r="1" class="star"/><circle cx="30" cy="12" r="1" class="star"/></svg>`)
}
