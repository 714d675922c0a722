/**
 * @module Recognises constructs of Handlebars and Mustache in a template that does not compile, and says how they are
 * written here. People who come from other providers bring such templates.
 */

export interface ForeignConstruct {
  /** Line of the construct, from 1. */
  readonly line: number
  /** What is wrong and what to write instead, without a full stop. */
  readonly problem: string
}

const CONSTRUCT = /\{\{(?<sign>\{|[#^/>!&@])[ \t]{0,9}(?<name>[A-Za-z_][\w.-]{0,49})?/

const BLOCKS: Readonly<Record<string, string>> = {
  if: '{% if … %}',
  unless: '{% if not … %}',
  each: '{% for item in … %}',
  with: '{% with name = … %}',
}
const BLOCK_ENDS: Readonly<Record<string, string>> = {
  if: '{% endif %}',
  unless: '{% endif %}',
  each: '{% endfor %}',
  with: '{% endwith %}',
}

/** The first such construct of a source; undefined: there is none. */
export function findForeignConstruct(source: string): ForeignConstruct | undefined {
  const found = CONSTRUCT.exec(source)
  if (!found?.groups) return undefined
  const { sign = '', name = '' } = found.groups
  return {
    line: source.slice(0, found.index).split('\n').length,
    problem: `"${found[0]}" is a construct of Handlebars or Mustache; here it is ${translate(sign, name)}`,
  }
}

function translate(sign: string, name: string): string {
  switch (sign) {
    case '#':
      return BLOCKS[name] ?? `{% if ${name || '…'} %}, or {% for item in ${name || '…'} %} for a list`
    case '/':
      return BLOCK_ENDS[name] ?? '{% endif %}, or {% endfor %} for a list'
    case '^':
      return `{% if not ${name || '…'} %}`
    case '{':
    case '&':
      return `{{ ${name || '…'} | safe }}`
    case '!':
      return '{# … #}'
    case '@':
      return name === 'index' ? '{{ loop.index0 }}' : 'a variable of the loop, such as {{ loop.first }}'
    default:
      return 'not available: a template cannot use other templates'
  }
}
