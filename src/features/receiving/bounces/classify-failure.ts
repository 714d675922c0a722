/**
 * @module What a report of a failed delivery means: bounce type, category and whether the address is dead, by the rules of direct replies. Pure.
 */

import { type BounceCategory, toBounceType } from '#features/sending/delivery/bounce-category.ts'
import { classifyReply, type Phase } from '#features/sending/delivery/classify.ts'
import { isPermanentlyInvalid } from '#features/sending/delivery/permanently-invalid.ts'
import type { DsnRecipient } from '#protocols/dsn/report.ts'
import { isVagueStatus } from '#protocols/dsn/standard.ts'
import type { SmtpReply } from '#protocols/smtp/replies.ts'

export interface ReportedBounce {
  /** As of direct replies: `hard` is said of the recipient alone. */
  readonly bounceType: 'hard' | 'soft'
  readonly bounceCategory: BounceCategory
  /** The address itself takes no mail, so it goes on the suppression list. */
  readonly isPermanentlyInvalid: boolean
}

/** Judges the status and diagnostic of a recipient whose action is `failed`. */
export function classifyFailure({ status, diagnostic }: Pick<DsnRecipient, 'status' | 'diagnostic'>): ReportedBounce {
  const reply = toReply(status, diagnostic ?? '')
  const phase = findPhase(diagnostic ?? '')
  const bounceCategory = reply.code < 500 ? 'expired' : classifyReply(reply, phase)
  if (bounceCategory === 'expired') return { bounceType: 'soft', bounceCategory, isPermanentlyInvalid: false }
  return {
    bounceType: toBounceType(bounceCategory),
    bounceCategory,
    isPermanentlyInvalid: isPermanentlyInvalid(reply, phase),
  }
}

/** The command that the reporting server names: Postfix after the reply, Exim before it. Without one, the latest takes least for granted. */
const REJECTED_COMMAND = /(?:in reply to|error from remote mail server after)(?: pipelined)? (MAIL FROM|RCPT TO)/i

function findPhase(diagnostic: string): Exclude<Phase, 'session'> {
  const command = REJECTED_COMMAND.exec(diagnostic)?.[1]?.toUpperCase()
  return command === 'MAIL FROM' ? 'mail' : command === 'RCPT TO' ? 'rcpt' : 'body'
}

/** A reply code, and the enhanced one where there is one: at the beginning, or where the server that refused is quoted. */
const REPLY_CODE = /(?<![\d.:])([45]\d\d)(?:[ -]#?(([45])\.\d{1,3}\.\d{1,3})(?!\.?\d)|(?=[ -]))/

/** The reply that the reporting server got or would have given. */
function toReply(status: string | null, diagnostic: string): SmtpReply {
  const quoted = REPLY_CODE.exec(diagnostic)
  const quotedCode = quoted?.[1] === undefined ? undefined : Number(quoted[1])
  const quotedStatus = quoted?.[2]
  const isVague = isVagueStatus(status)
  const isTemporary = isVague
    ? // 5.0.0 is "failed"; what was tried until it was given up is told by the reply.
      quotedCode === undefined
      ? status?.startsWith('4') === true
      : quotedCode < 500
    : status?.startsWith('4') === true
  const enhanced = (isVague ? quotedStatus : undefined) ?? status ?? undefined
  const code = isTemporary ? 451 : quotedCode !== undefined && quotedCode >= 500 ? quotedCode : 554
  // What stands before the reply are the words of who reports it.
  const text = quoted ? diagnostic.slice(quoted.index) : diagnostic
  const reply = { code, lines: [text], text }
  return enhanced === undefined ? reply : { ...reply, enhanced }
}
