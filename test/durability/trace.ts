/** @module Parses the output of `strace -f -y -xx`: the system calls in order, each with its start and end. */

export interface Call {
  readonly name: string
  /** Path of the file that its first argument refers to; `''`: none. */
  readonly path: string
  /** The written octets, all buffers concatenated. */
  readonly data: Buffer
  readonly result: number
  /** Line of the trace at which the call began. */
  readonly begun: number
  /** Line of the trace at which it returned. */
  readonly ended: number
}

export const STRACE_ARGUMENTS = ['-f', '-y', '-xx', '-s', '32768', '--seccomp-bpf']

const LINE = /^(?:\[pid\s+)?(\d+)\]?\s+(.*)$/
const UNFINISHED = / <unfinished \.\.\.>$/
const RESUMED = /^<\.\.\. \w+ resumed>/
const CALL = /^(\w+)\((?:-?\d+<((?:[^<>]|\\x[0-9a-f]{2})*)>)?(.*)\)\s+= (-?\d+)/
const STRING = /"((?:\\x[0-9a-f]{2})*)"/g

export function parseTrace(text: string): Call[] {
  const calls: Call[] = []
  const unfinished = new Map<string, { text: string; line: number }>()
  for (const [line, raw] of text.split('\n').entries()) {
    const [, pid = '', rest = ''] = LINE.exec(raw) ?? []
    if (UNFINISHED.test(rest)) {
      unfinished.set(pid, { text: rest.replace(UNFINISHED, ''), line })
      continue
    }
    const start = RESUMED.test(rest) ? unfinished.get(pid) : { text: '', line }
    if (!start) continue
    unfinished.delete(pid)
    const [, name = '', path = '', written = '', result = ''] = CALL.exec(start.text + rest.replace(RESUMED, '')) ?? []
    if (name === '') continue
    calls.push({
      name,
      path: bytesOf(path).toString() || path,
      data: Buffer.concat([...written.matchAll(STRING)].map(([, hex = '']) => bytesOf(hex))),
      result: Number(result),
      begun: start.line,
      ended: line,
    })
  }
  return calls
}

const bytesOf = (escaped: string): Buffer => Buffer.from(escaped.replaceAll('\\x', ''), 'hex')
