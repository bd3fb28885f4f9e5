export type Encoding = "utf-8" | "utf-8-bom" | "utf-16le" | "utf-16be";

const marks: readonly [Encoding, Buffer][] = [
  ["utf-8-bom", Buffer.from([0xef, 0xbb, 0xbf])],
  ["utf-16le", Buffer.from([0xff, 0xfe])],
  ["utf-16be", Buffer.from([0xfe, 0xff])],
];

// encodingOf tells the encoding of a file by the byte order mark at its beginning.
export function encodingOf(head: Buffer): Encoding {
  return marks.find(([, mark]) => head.subarray(0, mark.length).equals(mark))?.[0] ?? "utf-8";
}

function markOf(encoding: Encoding): Buffer {
  return marks.find(([name]) => name === encoding)?.[1] ?? Buffer.alloc(0);
}

// decode returns the text of bytes without the byte order mark; undefined: they are no text.
export function decode(data: Buffer, encoding: Encoding): string | undefined {
  const body = data.subarray(markOf(encoding).length);
  if (encoding === "utf-16le" || encoding === "utf-16be") {
    if (body.length % 2 !== 0) {
      return undefined;
    }
    return (encoding === "utf-16be" ? Buffer.from(body).swap16() : body).toString("utf16le");
  }
  if (body.includes(0)) {
    return undefined;
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return undefined;
  }
}

// encode is the reverse of decode.
export function encode(text: string, encoding: Encoding): Buffer {
  const plain = text.startsWith("\ufeff") && encoding !== "utf-8" ? text.slice(1) : text;
  const body = Buffer.from(plain, encoding === "utf-16le" || encoding === "utf-16be" ? "utf16le" : "utf8");
  return Buffer.concat([markOf(encoding), encoding === "utf-16be" ? body.swap16() : body]);
}

// withLineEnds gives a text the line ends of the file that it replaces: a file in which every line ends with CRLF stays one, unless
// the text has carriage returns of its own.
export function withLineEnds(text: string, before: string): string {
  const crlf = before.includes("\r\n") && !/(^|[^\r])\n|\r(?!\n)/.test(before);
  return crlf && !text.includes("\r") ? text.replaceAll("\n", "\r\n") : text;
}
