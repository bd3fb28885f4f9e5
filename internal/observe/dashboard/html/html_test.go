package html

import (
	"strings"
	"testing"
)

func TestValuesAreEscapedForTheirPlace(t *testing.T) {
	const hostile = `"'><script>x</script>&amp;`
	const escaped = `&#34;&#39;&gt;&lt;script&gt;x&lt;/script&gt;&amp;amp;`
	for _, test := range []struct {
		got  HTML
		want string
	}{
		{F(`<p>{}</p>`, hostile), `<p>` + escaped + `</p>`},
		{F(`<p title="a {} b">{}</p>`, hostile, 7), `<p title="a ` + escaped + ` b">7</p>`},
		{F(`<p
title="{}">`, hostile), "<p\ntitle=\"" + escaped + `">`},
		{F(`{}`, "a\x00b"), "a\uFFFDb"},
		{F(`{}`, "{}"), `{}`},
		{F(`<p>{}</p>`, F(`<b>{}</b>`, "<")), `<p><b>&lt;</b></p>`},
		{F(`<p{}{}>`, Attr(true, ` hidden`), Attr(false, ` class="x"`)), `<p hidden>`},

		{F(`<a href="{}">`, "/calls?a=1&b=2"), `<a href="/calls?a=1&amp;b=2">`},
		{F(`<a href="{}">`, "javascript:alert(1)"), `<a href="#">`},
		{F(`<a href="{}">`, " javascript:alert(1)"), `<a href="#">`},
		{F(`<a href="{}">`, "https://example.com/"), `<a href="#">`},
		{F(`<a href="{}">`, "//example.com/"), `<a href="#">`},
		{F(`<a href="{}">`, `/\example.com/`), `<a href="#">`},
		{F(`<a href="{}">`, "/\t/example.com/"), `<a href="#">`},
		{F(`<a href="{}">`, "/a\n/example.com/"), `<a href="#">`},
		{F(`<a href="{}">`, "/calls/../login"), `<a href="#">`},
		{F(`<a href="{}">`, "/calls/.."), `<a href="#">`},
		{F(`<a href="/calls/{}/x">`, ".."), `<a href="/calls/#/x">`},
		{F(`<a HREF="{}">`, "javascript:x"), `<a HREF="#">`},
		{F("<a\thref=\"{}\">", "javascript:x"), "<a\thref=\"#\">"},
		{F(`<!-- a "comment" --><p>{}</p>`, "<"), `<!-- a "comment" --><p>&lt;</p>`},
		{F(`<p title='>'>{}</p>`, "<"), `<p title='>'>&lt;</p>`},
		{F(`<style>p > a</style>{}`, "<"), `<style>p > a</style>&lt;`},
		{F(`<SCRIPT SRC="{}"></SCRIPT><p>{}</p>`, "/app.js", "<"), `<SCRIPT SRC="/app.js"></SCRIPT><p>&lt;</p>`},
		{F(`<script src="{}"></script>`, "data:text/javascript,x"), `<script src="#"></script>`},
		{F(`<form action="{}">`, "javascript:x"), `<form action="#">`},
		{F(`<a href="/calls/{}/{}">`, `../x?y#z"`, "javascript:x"), `<a href="/calls/..%2Fx%3Fy%23z%22/javascript:x">`},
		{F(`<a href="/calls?model={}&key={}">`, "a&b=c d", "é"), `<a href="/calls?model=a%26b%3Dc+d&key=%C3%A9">`},

		{If(false, `<p>{}</p>`, "x"), ``},
		{If(true, `<p>{}</p>`, "<"), `<p>&lt;</p>`},
		{With("", `<p>{}</p>`), ``},
		{With("<", `<p>{}</p>`), `<p>&lt;</p>`},
		{Each([]string{"a", "<"}, func(s string) HTML { return F(`<i>{}</i>`, s) }), `<i>a</i><i>&lt;</i>`},
		{Join(F(`<b>`), F(`{}`, ">"), F(`</b>`)), `<b>&gt;</b>`},
	} {
		if test.got.String() != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
}

// What would not be escaped as it has to be is refused.
func TestMistakesPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"a value too few":          func() { F(`{}{}`, "x") },
		"a value too many":         func() { F(`{}`, "x", "y") },
		"text in a tag":            func() { F(`<p {}>`, `onclick="x"`) },
		"HTML in a tag":            func() { F(`<p {}>`, F(`{}`, `onclick=x`)) },
		"HTML in an attribute":     func() { F(`<p title="{}">`, F(`<b>"</b>`)) },
		"attributes between tags":  func() { F(`<p>{}</p>`, Attr(true, ` hidden`)) },
		"an attribute of a script": func() { F(`<p onclick="{}">`, "x") },
		"an attribute of style":    func() { F(`<p style="{}">`, "x") },
		"a script":                 func() { F(`<script>var x = {}</script>`, "x") },
		"a script in capitals":     func() { F(`<SCRIPT>var x = {}</SCRIPT>`, "x") },
		"HTML in a script":         func() { F(`<script>{}</script>`, F(`<b>`)) },
		"a style sheet":            func() { F(`<style>p { color: {} }</style>`, "x") },
		"a frame":                  func() { F(`<iframe>{}</iframe>`, "x") },
		"a comment":                func() { F(`<!-- {} -->`, "x") },
		"spaces around =":          func() { F(`<a href = "{}">`, "javascript:x") },
		"formaction":               func() { F(`<button formaction="{}">`, "javascript:x") },
		"srcdoc":                   func() { F(`<iframe srcdoc="{}"></iframe>`, "x") },
		"xlink:href":               func() { F(`<use xlink:href="{}">`, "javascript:x") },
		"the content of meta":      func() { F(`<meta http-equiv="refresh" content="{}">`, "0;url=javascript:x") },
		"a script in mixed case":   func() { F(`<p OnClick="{}">`, "x") },
		"> in single quotes":       func() { F(`<p title='>' onclick="{}">`, "x") },
		"single quotes":            func() { F(`<p title='{}'>`, "x") },
		"the name of a tag":        func() { F(`<{}>`, "script") },
		"attributes as a value":    func() { F(`<p title={}>`, Attr(true, ` hidden`)) },
		"half a tag":               func() { F(`<p title="`) },
		"no quotes":                func() { F(`<p title={}>`, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "html: ") {
					t.Errorf("it panics with %q", text)
				}
			}()
			f()
		})
	}
}
