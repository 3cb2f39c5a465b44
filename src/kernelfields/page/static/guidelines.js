// Guidelines: Markdown as elements with text in them, never as markup. Headings, lists, quotes, code and emphasis.

import { element } from "./server.js";

const INLINE = /(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s](?:[^*]*[^*\s])?\*|(?<!\w)_[^_\s](?:[^_]*[^_\s])?_(?!\w))/;
const HTML = /^\s*<(!doctype|html|head|body|script|!--)/i;

// The parts of a line: text, code, strong and emphasised text.
function inline(text) {
  return text.split(INLINE).filter(Boolean).map((part) => {
    if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) return element("code", "", part.slice(1, -1));
    if (part.length > 4 && part.startsWith("**") && part.endsWith("**")) return element("strong", "", part.slice(2, -2));
    if (INLINE.test(part)) return element("em", "", part.slice(1, -1));
    return document.createTextNode(part);
  });
}

function filled(name, text, className) {
  const made = element(name, className);
  made.append(...inline(text));
  return made;
}

// The elements of a text in Markdown; a page of HTML is shown as the text it is.
export function render(text) {
  if (HTML.test(text)) return [element("pre", "", text)];
  const made = [], lines = text.replace(/\r\n?/g, "\n").split("\n");
  let paragraph = [], list = null;
  const close = () => {
    if (paragraph.length) made.push(filled("p", paragraph.join(" ")));
    [paragraph, list] = [[], null];
  };
  for (let k = 0; k < lines.length; k++) {
    const line = lines[k];
    const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line), item = /^(\s*)([-*+]|\d+[.)])\s+(.*)$/.exec(line);
    if (/^\s*(```|~~~)/.test(line)) {
      close();
      const fence = line.trim().slice(0, 3), code = [];
      while (++k < lines.length && !lines[k].trim().startsWith(fence)) code.push(lines[k]);
      made.push(element("pre", "", code.join("\n")));
    } else if (heading) {
      close();
      made.push(filled(`h${Math.min(heading[1].length + 1, 6)}`, heading[2])); // the page has the first level
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      close();
      made.push(element("hr"));
    } else if (item) {
      const begun = (name) => Object.assign(element(name), name === "ol" ? { start: parseInt(item[2], 10) } : {});
      const kind = /\d/.test(item[2]) ? "ol" : "ul";
      if (list && item[1].length > 1) {
        // Deeper items belong to the one before them.
        const above = list.lastChild;
        if (above.lastChild?.localName !== kind) above.append(begun(kind));
        above.lastChild.append(filled("li", item[3]));
        continue;
      }
      if (list?.localName !== kind) {
        close();
        list = begun(kind);
        made.push(list);
      }
      list.append(filled("li", item[3]));
    } else if (/^\s*>/.test(line)) {
      close();
      made.push(filled("blockquote", line.replace(/^\s*>\s?/, "")));
    } else if (!line.trim()) {
      close();
    } else if (list && /^\s/.test(line)) {
      list.lastChild.append(" ", ...inline(line.trim()));
    } else {
      if (list) close();
      paragraph.push(line.trim());
    }
  }
  close();
  return made;
}
