// Package standin is a strict stand-in for the language server of the IDE, as a process: "perigee
// simulate langserver" with the command line of a real one. It takes the same flags, standard input
// and life line, opens the same ports, writes the same log lines, calls the Extension Server that
// its flags name, serves LanguageServerService, and sends the conversations that it is given to its
// cloud endpoint. Where the real program is strict, it is strict in the same way.
//
// It is no agent: the model decides alone what is said, native tools read the workspace at most,
// and commands are only run by an Extension Server that offers to.
//
// One environment variable, PERIGEE_STANDIN, chooses the generation, what it believes about its
// Extension Server, and faults; "perigee simulate langserver --help-standin" explains it. See
// [Usage].
package standin
