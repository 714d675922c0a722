/** @module Describes template errors for the template's author, from minijinja's messages. */
import { truncate } from '../text.ts'
import type { TemplateFault, TemplatePart } from './renderer.ts'

/** A construct of Handlebars or Mustache: people who come from other providers bring such templates. */
const FOREIGN = /\{\{[{#^/>!&@][ \t]{0,9}(?:[A-Za-z_][\w.-]{0,49})?/

/** Maximum lengths of a message and of a variable's name: both may come from the template, which can be long. */
const MAX_PROBLEM_LENGTH = 300
const MAX_NAME_LENGTH = 100

export function createFaultAt(
  part: TemplatePart,
  line: number | undefined,
  kind: TemplateFault['kind'],
  problem: string,
): TemplateFault {
  const at = line === undefined ? part : `${part}, line ${line}`
  return { part, line, variable: undefined, kind, message: `${at}: ${truncate(problem, MAX_PROBLEM_LENGTH)}.` }
}

/** @param variable the variable as written in the source, if known */
export function missingFault(
  part: TemplatePart,
  line: number | undefined,
  variable: string | undefined,
): TemplateFault {
  const name = variable === undefined ? undefined : truncate(variable, MAX_NAME_LENGTH)
  const what = name === undefined ? 'a variable' : `the variable "${name}"`
  return { ...createFaultAt(part, line, 'undefined', `${what} is missing in template_data`), variable: name }
}

/** A problem of a part as a whole. */
const partFault = (part: TemplatePart, problem: string): TemplateFault => ({
  part,
  line: undefined,
  variable: undefined,
  kind: 'limit',
  message: `${part} ${problem}.`,
})

export const limitFault = (part: TemplatePart): TemplateFault =>
  partFault(part, 'takes too much time or memory to render: simplify it')

export const lengthFault = (part: TemplatePart, maxBytes: number): TemplateFault =>
  partFault(part, `is longer than ${maxBytes} bytes when rendered: make it shorter`)

export const divisionFault = (part: TemplatePart): TemplateFault => ({
  ...partFault(part, 'computes something that is not a number, such as a division by zero: test for 0 first'),
  kind: 'error',
})

export const sourceFault = (part: TemplatePart, maxBytes: number): TemplateFault =>
  partFault(part, `is longer than ${maxBytes} bytes: make it shorter`)

/** A problem that concerns all parts. */
export const dataFault = (kind: TemplateFault['kind'], message: string): TemplateFault => ({
  part: undefined,
  line: undefined,
  variable: undefined,
  kind,
  message,
})

export interface ParsedError {
  /** The message without the line number and the source excerpt. */
  readonly text: string
  readonly line: number | undefined
}

/**
 * Matches messages such as `unknown filter: filter x is unknown (in template.html:2)`, sometimes followed by a source
 * excerpt.
 */
const ERROR_MESSAGE = /^(?<text>[\s\S]*?) \(in template\.(?:html|txt):(?<line>\d+)\)(?:\n|$)/

export function parseErrorMessage(message: string): ParsedError {
  const { text = message.split('\n', 1)[0] ?? '', line } = ERROR_MESSAGE.exec(message)?.groups ?? {}
  return { text, line: line === undefined ? undefined : Number(line) }
}

/** Whether this is the error of `map` and similar filters for an unknown filter or test. */
export const isUnknownName = ({ text }: ParsedError): boolean => text === 'unknown filter' || text === 'unknown test'

export const isUndefinedError = ({ text }: ParsedError): boolean => text === 'undefined value'

const SYNTAX = 'syntax error: '
/** The kinds of minijinja's errors that need not be shown, because all details follow in the text. */
const ERROR_KIND =
  /^(?:syntax error|invalid operation|unknown (?:filter|function|method|test)|template not found|missing argument|too many arguments|cannot deserialize|could not render include): /

/** Texts for errors that contain no details, in clearer words. */
const EXPLANATIONS: Readonly<Record<string, string>> = {
  'too many arguments': 'a filter, test or function has too many arguments',
  'missing argument': 'a filter, test or function lacks an argument',
  'unknown method': 'a method is unknown, or takes other arguments',
}

/** Describes any other error in a source. */
export function otherFault(part: TemplatePart, source: string, { text, line }: ParsedError): TemplateFault {
  const kind = text.startsWith(SYNTAX) ? 'syntax' : 'error'
  const foreign = kind === 'syntax' ? FOREIGN.exec(source) : null
  if (foreign)
    return createFaultAt(
      part,
      source.slice(0, foreign.index).split('\n').length,
      kind,
      `"${foreign[0]}" is a construct of Handlebars or Mustache; in Jinja it is {% if … %}, {% if not … %}, {% for item in … %}, {{ name | safe }} or {# … #}`,
    )
  return createFaultAt(part, line, kind, EXPLANATIONS[text] ?? text.replace(ERROR_KIND, ''))
}
