/** @module Reads `replies.txt`: replies of mail servers, each with its meaning. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BounceCategory } from '#features/sending/delivery/protocol.ts'
import { makeReply, type SmtpReply } from '#protocols/smtp/replies.ts'

export type Stage = 'connect' | 'mail' | 'rcpt' | 'data' | 'body'

export interface ReplyCase {
  readonly who: string
  readonly stage: Stage
  readonly text: string
  readonly reply: SmtpReply
  readonly category: BounceCategory
  readonly isDead: boolean
  /** Name of a source in the head of the file. */
  readonly source: string
}

const FILE = readFileSync(join(import.meta.dir, 'replies.txt'), 'utf8')

/** Names of the sources of the replies. */
export const SOURCES: ReadonlySet<string> = new Set([...FILE.matchAll(/^# @(\S+) /gm)].map((match) => match[1] ?? ''))

export const REPLIES: readonly ReplyCase[] = FILE.split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line) => {
    const [who = '', stage, text = '', category, state, source = ''] = line.split(' | ')
    return {
      who,
      stage: stage as Stage,
      text,
      reply: parseReply(text),
      category: category as BounceCategory,
      isDead: state === 'dead',
      source,
    }
  })

/** @param text lines separated by `\\`, each with its code */
export function parseReply(text: string): SmtpReply {
  return makeReply(
    Number(text.slice(0, 3)),
    text.split('\\\\').map((line) => line.slice(4)),
  )
}
