"use strict";
/* Bytes of records as text, JSON and hex. What producers wrote is hostile: it becomes text nodes only, and characters
   that would hide or turn round what stands beside them are shown by their numbers. */
const HIDING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const visible = text => String(text).replace(HIDING, one => "⟨" + one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");

const bytesOf = part => Uint8Array.from(atob(part.base64), one => one.charCodeAt(0));
const isCut = (part, bytes) => bytes.length < part.size;

/* null: the bytes are no UTF-8. Of cut bytes the last character may be a part. */
function textOf(bytes, cut) {
  for (let less = 0; less <= (cut ? 3 : 0); less++)
    try { return new TextDecoder("utf-8", {fatal: true, ignoreBOM: true}).decode(bytes.subarray(0, bytes.length - less)); } catch { /* the next one */ }
  return null;
}

const MOST_INDENTED = 40;  // levels: with all of them the text of a deep value is as long as the square of its bytes

/* JSON with line breaks; null: it is none. Numbers and names stay as they were written: JSON.parse rounds large numbers. */
function prettyJson(text) {
  try { JSON.parse(text); } catch { return null; }
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g);
  let out = "", depth = 0;
  const line = () => "\n" + "  ".repeat(Math.min(depth, MOST_INDENTED));
  for (let at = 0; at < tokens.length; at++) {
    const one = tokens[at], next = tokens[at + 1];
    if (one === "{" || one === "[") {
      if (next === "}" || next === "]") { out += one + next; at++; } else { depth++; out += one + line(); }
    } else if (one === "}" || one === "]") { depth--; out += line() + one; }
    else out += one === "," ? "," + line() : one === ":" ? ": " : one;
  }
  return out;
}

function hexDump(bytes) {
  const lines = [], wide = matchMedia("(max-width: 640px)").matches ? 8 : 16;
  for (let start = 0; start < bytes.length; start += wide) {
    const piece = [...bytes.subarray(start, start + wide)];
    const hex = piece.map(one => one.toString(16).padStart(2, "0")).join(" ").padEnd(3 * wide - 1);
    lines.push(start.toString(16).padStart(8, "0") + "  " + hex + "  " + piece.map(one => one >= 32 && one < 127 ? String.fromCharCode(one) : ".").join(""));
  }
  return lines.join("\n");
}

/* null: show them as hex. `auto` takes bytes with control characters for numbers, as an eight-byte key. */
function readable(bytes, cut, form) {
  const text = form === "hex" ? null : textOf(bytes, cut);
  return form === "auto" && text !== null && /[\u0000-\u0008\u000e-\u001a\u001c-\u001f]/.test(text) ? null : text;
}

/* {form, text} of bytes in the wanted form; `auto`: JSON where it is an object or a list, else text, else hex. */
function shown(bytes, cut, form) {
  const text = readable(bytes, cut, form);
  if (text === null) return {form: "hex", text: hexDump(bytes)};
  const pretty = form === "text" || cut || (form === "auto" && !/^\s*[{[]/.test(text)) ? null : prettyJson(text);
  return pretty === null ? {form: "text", text: visible(text)} : {form: "json", text: visible(pretty)};
}

/* One line for a list. */
function preview(part, form) {
  if (part === null) return make("span", {class: "null"}, "null");
  const bytes = bytesOf(part).subarray(0, 400), text = readable(bytes, true, form);
  if (part.size === 0) return make("span", {class: "null"}, "empty");
  return text === null ? [...bytes.subarray(0, 40)].map(one => one.toString(16).padStart(2, "0")).join(" ") : visible(text.replace(/\s+/g, " "));
}
