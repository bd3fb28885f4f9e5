// Package standin is a strict stand-in for the language server of the IDE, as a process: "perigee
// simulate langserver" with the command line of a real one. It takes the same flags, standard
// input and parent pipe, opens the same ports, writes the same log lines, calls the Extension
// Server that its flags name, serves LanguageServerService, and sends its conversations to its
// cloud endpoint. It is strict in the same places as the real program.
//
// It is not an agent: only the model decides about the answers, native tools read the workspace at
// most, and commands are only run by an Extension Server that offers to.
//
// One environment variable, PERIGEE_STANDIN, chooses the generation, the expected Extension
// Server, and faults; "perigee simulate langserver --help-standin" explains it. See [Usage].
package standin
