package config

import "reflect"

// KeyVariables are the variables in which an API key is looked for when there is no configuration file, in order.
var KeyVariables = []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}

// implicitName is what the upstream that has the key of the environment is called.
const implicitName = "studio"

// useKeyOfEnvironment gives a configuration without a file one upstream, with the API key that the environment has.
func (l *loader) useKeyOfEnvironment() {
	if l.path != "" {
		return
	}
	for _, name := range KeyVariables {
		if l.src.lookup(name) == "" {
			continue
		}
		l.keyVariable = name
		origin := Origin{Source: "environment " + name}
		upstream := Upstream{Name: implicitName, Kind: KindGemini}
		v := reflect.ValueOf(&upstream).Elem()
		for _, f := range fieldsOf(typeUpstream) {
			switch f.name {
			case "name", "kind":
				l.origins["upstreams[0]."+f.name] = origin
			case "keys":
				v.Field(f.index).Set(reflect.MakeSlice(f.typ, 1, 1))
				l.origins["upstreams[0].keys"] = origin
				l.setLeaf(v.Field(f.index).Index(0), "env:"+name, "upstreams[0].keys[0]", origin, f)
			}
		}
		l.origins["upstreams"], l.origins["upstreams[0]"] = origin, origin
		l.config.Upstreams = []Upstream{upstream}
		return
	}
}
