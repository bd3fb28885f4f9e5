// Configurations of MCP clients that start perigee's MCP server. They have no token: the server finds the windows itself.

export interface ConfigFormat {
  readonly label: string;
  readonly detail: string;
  readonly text: (binary: string) => string;
}

export const configFormats: readonly ConfigFormat[] = [
  {
    label: "Claude Code, Gemini CLI, Cursor",
    detail: "mcpServers, in JSON",
    text: (command) => json({ mcpServers: { perigee: { command, args: ["mcp"] } } }),
  },
  {
    label: "VS Code",
    detail: "servers, for mcp.json",
    text: (command) => json({ servers: { perigee: { type: "stdio", command, args: ["mcp"] } } }),
  },
  {
    label: "OpenCode",
    detail: "mcp, for opencode.json",
    text: (command) => json({ mcp: { perigee: { type: "local", command: [command, "mcp"], enabled: true } } }),
  },
  {
    label: "Codex",
    detail: "for config.toml",
    text: (command) => `[mcp_servers.perigee]\ncommand = ${JSON.stringify(command)}\nargs = ["mcp"]\n`,
  },
];

function json(value: unknown): string {
  return JSON.stringify(value, undefined, 2) + "\n";
}
