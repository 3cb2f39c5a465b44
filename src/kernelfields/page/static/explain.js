// Why a label: the contributions of the field as a sentence, for those who do not read tables.

import { view } from "./server.js";

const NAMED = /^([\w.]+?)(\d*)(?:\[([+-]?\d+)\])?=(.*)$/s; // lower[-1]=trains, suffix2=ly
const MOST = 2; // reasons that a sentence names
const COUNTS = 0.5; // reasons against that are at least so large a part of the first one for it

// A label as people read it: the type of its span.
function label(text) {
  if (!view.state.spans) return text;
  return text === "O" ? "no span" : text.replace(/^[BIESLU]-/, "");
}

function where(offset) {
  const step = Math.abs(offset) === 1 ? "" : `${Math.abs(offset)} `;
  return `${step}${offset < 0 ? "before" : "after"}`;
}

// A feature of a word: which word, and what of it.
function feature(name) {
  const [, kind, length, offset, value] = NAMED.exec(name) ?? [];
  if (!kind) return name;
  const at = Number(offset ?? 0);
  if (/^_[BE][+-]?\d*$/.test(value)) return at < 0 ? "the begin of the text" : "the end of the text";
  const word = at ? `the word ${where(at)}` : "the word";
  if (kind === "word" || kind === "lower") return at ? `${word}, '${value}'` : `${word} '${value}'`;
  const parts = { suffix: "the ending", prefix: "the beginning", shape: "the shape", shortshape: "the shape" };
  if (parts[kind]) return `${parts[kind]} '${value}'${at ? ` of ${word}` : ""}`;
  if (value === "yes") return `the mark '${kind}'${at ? ` of ${word}` : ""}`;
  return `${kind}${length}${at ? ` of ${word}` : ""} = ${value}`;
}

function reason(own) {
  if (own.kind === "feature") return feature(own.name);
  if (own.kind === "constant") return "how often the label occurs";
  if (own.kind === "transition") {
    const [, way, other] = /^transition (from|to) (.*)$/s.exec(own.name) ?? [];
    if (way) return `the label ${way === "from" ? "before" : "after"}, ${label(other)}`;
  }
  if (own.kind === "kernel") {
    const like = (own.parts ?? []).map((part) => /training input (\d+)/.exec(part.name)?.[1]).filter(Boolean);
    if (like.length) return `what is like it in the training data (input ${like.join(", ")})`;
  }
  return own.name;
}

const signed = (amount) => `${amount < 0 ? "−" : "+"}${Math.abs(amount).toFixed(1)}`;
const listed = (found) => found.map((own) => `${reason(own)} (${signed(own.amount)})`).join(" and ");

// One or two sentences: the label, its probability, what speaks for it most, and what against it.
export function sentences(found) {
  const chance = (value) => (value === undefined || value === null ? "" : ` ${value.toFixed(2)}`);
  const other = found.other ?? found.against;
  const told = `${found.label}${chance(found.probability)}` + (other ? `, rather than ${other}${chance(found.other_probability)}` : "");
  const all = found.contributions ?? [];
  if (all.some((own) => own.amount === null)) return `${told}: the rules of the labels leave nothing else.`;
  const ranked = all.filter((own) => Math.abs(own.amount) >= 0.05).sort((a, b) => b.amount - a.amount);
  const reasons = ranked.filter((own) => own.amount > 0).slice(0, MOST);
  if (!reasons.length) return `${told}: no single reason speaks for it, the labels beside it decide.`;
  const against = ranked.reverse().filter((own) => own.amount < 0 && -own.amount >= COUNTS * reasons[0].amount).slice(0, 1);
  return `${told}: mostly because of ${listed(reasons)}.` + (against.length ? ` Against it: ${listed(against)}.` : "");
}
