// PayloadEncoder writes protocol buffer messages for commands that take them, and the request of antigravity.sendChatActionMessage.
export class PayloadEncoder {
  private readonly parts: Buffer[] = [];

  // string adds a field with a text. An empty one is left out, as in all encoders.
  string(field: number, text: string): this {
    return text === "" ? this : this.bytes(field, Buffer.from(text, "utf8"));
  }

  message(field: number, content: PayloadEncoder): this {
    return this.bytes(field, content.encode());
  }

  bytes(field: number, data: Buffer): this {
    this.parts.push(varint((field << 3) | 2), varint(data.length), data);
    return this;
  }

  number(field: number, value: number | bigint): this {
    if (value !== 0 && value !== 0n) {
      this.parts.push(varint((field << 3) | 0), varint(value));
    }
    return this;
  }

  encode(): Buffer {
    return Buffer.concat(this.parts);
  }

  // textItem is a TextOrScopeItem with a text.
  static textItem(text: string): PayloadEncoder {
    return new PayloadEncoder().string(1, text);
  }

  // chatAction is the argument of antigravity.sendChatActionMessage: the JSON of a SendActionToChatPanelRequest, whose payload is a list
  // of encoded messages in base64.
  static chatAction(actionType: string, payload: readonly PayloadEncoder[]): string {
    return JSON.stringify({ actionType, payload: payload.map((item) => item.encode().toString("base64")) });
  }

  static sendMessage(text: string): string {
    return PayloadEncoder.chatAction("sendMessage", [PayloadEncoder.textItem(text)]);
  }
}

function varint(value: number | bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt(value);
  for (; rest >= 0x80n; rest >>= 7n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}
