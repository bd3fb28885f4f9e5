// An event stream may keep at most this much of an unfinished event.
const maxEvent = 64 << 20;

export interface ServerEvent {
  readonly event: string;
  readonly data: string;
}

// events reads server-sent events. Comments, which perigee sends as keep-alives, are skipped. An event without its empty line at the end
// of the stream is dropped, as the specification wants it: it may be cut.
export async function* events(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  let name = "";
  let data: string[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    rest += decoder.decode(chunk, { stream: true });
    if (rest.length + size > maxEvent) {
      throw new Error(`an event of the answer is larger than ${maxEvent >> 20} MiB`);
    }
    // A CR at the end may be the first half of a CRLF, so it waits for the next chunk.
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) {
          yield { event: name, data: data.join("\n") };
        }
        name = "";
        data = [];
        size = 0;
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") {
        name = value;
      } else if (field === "data") {
        data.push(value);
        size += value.length;
      }
    }
  }
}
