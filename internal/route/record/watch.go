package record

import "perigee"

// watchers passes the bodies of a call to several Watchers.
type watchers []perigee.Watcher

// watch creates the Watchers of the call and sets them as its Tap.
func (o *Observation) watch(origin *perigee.Origin) {
	for _, watch := range o.recorder.opts.Watch {
		if w := watch(&o.call, origin); w != nil {
			o.watchers = append(o.watchers, w)
		}
	}
	if origin.Replay.Watcher != nil {
		o.watchers = append(o.watchers, origin.Replay.Watcher)
	}
	if len(o.watchers) > 0 {
		o.log.SetTap(o.watchers)
		o.watchers.Request(perigee.TapClientRequest, origin.Buffer, origin.Body)
	}
}

// Body passes a body to all watchers.
func (list watchers) Body(at perigee.TapPoint, pieces ...[]byte) {
	for _, w := range list {
		w.Body(at, pieces...)
	}
}

// Request passes a request to all watchers. Those that are no RequestTap copy what they need, and so
// do all if buffer is nil.
func (list watchers) Request(at perigee.TapPoint, buffer *perigee.Buffer, pieces ...[]byte) {
	for _, w := range list {
		if tap, ok := w.(perigee.RequestTap); ok && buffer != nil {
			tap.Request(at, buffer, pieces...)
		} else {
			w.Body(at, pieces...)
		}
	}
}

// Done calls Done of all watchers.
func (list watchers) Done() {
	for _, w := range list {
		w.Done()
	}
}

// ProviderEndpoint passes the endpoint to the watchers that implement AttemptTap.
func (list watchers) ProviderEndpoint(endpoint string) {
	for _, w := range list {
		if tap, ok := w.(perigee.AttemptTap); ok {
			tap.ProviderEndpoint(endpoint)
		}
	}
}

func (list watchers) ProviderStatus(status int) {
	for _, w := range list {
		if tap, ok := w.(perigee.AttemptTap); ok {
			tap.ProviderStatus(status)
		}
	}
}

// Attempted passes an attempt to the watchers that implement AttemptTap.
func (list watchers) Attempted(a *perigee.Attempt) {
	for _, w := range list {
		if tap, ok := w.(perigee.AttemptTap); ok {
			tap.Attempted(a)
		}
	}
}
