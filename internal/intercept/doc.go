// Package intercept is the room of connections that other programs make and perigee reads: the
// proxy, its certificates, the rules that redirect connections to it, and the handler of the calls
// that a language server makes to its cloud. upstream, daemon and cli may import it. Begin with
// mitm.Proxy for any program, and with cloud.Handler for the language server.
//
//	authority   a certificate authority for named hosts, which signs nothing else
//	cloud       receives the calls of a language server to its cloud and puts requests into them
//	flows       log lines and HAR archives of intercepted requests
//	mitm        the proxy: explicit and transparent, HTTP/1.1, HTTP/2 and WebSockets
//	redirect    rules of nftables or iptables that redirect the connections of one user
//	truststore  adds the authority to the trust stores of the system, and removes it
package intercept
