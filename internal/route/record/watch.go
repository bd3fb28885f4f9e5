package record

import "perigee"

// watchers show the bodies of a call to several Watchers.
type watchers []perigee.Watcher

// watch begins to show the call to those that want to see it.
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
		o.watchers.Body(perigee.TapClientRequest, origin.Body)
	}
}

// Body shows a body to all of them.
func (list watchers) Body(at perigee.TapPoint, pieces ...[]byte) {
	for _, w := range list {
		w.Body(at, pieces...)
	}
}

// Done says to all of them that the client has got all that it will get.
func (list watchers) Done() {
	for _, w := range list {
		w.Done()
	}
}

// ProviderStatus shows the status of an answer to those that follow attempts.
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

// Attempted shows an attempt to those that follow them.
func (list watchers) Attempted(a *perigee.Attempt) {
	for _, w := range list {
		if tap, ok := w.(perigee.AttemptTap); ok {
			tap.Attempted(a)
		}
	}
}
