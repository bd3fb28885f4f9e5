package pages

import "perigee/internal/observe/dashboard/html"

// SignIn is the page that explains how to sign in.
type SignIn struct {
	Spent bool // the link has been used, or is too old
}

func (p SignIn) HTML(Times) html.HTML {
	title := "Sign in to perigee"
	if p.Spent {
		title = "This link is spent or too old"
	}
	return html.F(`<div class="gate" id="signin">
{}
<h1>{}</h1>
<p>{}Run this command on the machine where perigee runs. It opens the dashboard:</p>
<p>{}</p>
<p class="fine">Over SSH, <code>perigee dashboard --no-browser</code> prints the link.</p>
</div>`, orbit(), title, html.If(p.Spent, `A link works once, within a minute. `), command("perigee dashboard"))
}

// Welcome answers the link that has signed a browser in, and redirects to the dashboard, at an
// address without the ticket.
type Welcome struct{}

func (Welcome) HTML(Times) html.HTML {
	return html.F(`<div class="gate" id="welcome">
{}
<h1>Signed in</h1>
<p><a href="/">Open the dashboard</a></p>
</div>`, orbit())
}

// Problem is the page about an error.
type Problem struct{ Title, Message, Hint string }

func (p Problem) HTML(Times) html.HTML {
	return html.F(`<div class="head"><h1>{}</h1></div>
<div class="surface pad" role="alert" id="problem"><p>{}</p>{}
<p><a class="more" href="/">Back to now{}</a></p></div>`, p.Title, p.Message, html.With(p.Hint, `<p class="muted">{}</p>`), icon("next"))
}
