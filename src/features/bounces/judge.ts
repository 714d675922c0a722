/**
 * @module What a report of a failed delivery means: bounce type, category and whether the address is dead, by the rules of direct replies. Pure.
 */
import type { ReportedRecipient } from '#protocols/dsn/report.ts'
import type { SmtpReply } from '#protocols/smtp/replies.ts'
import { type BounceCategory, classifyReply } from '../delivery/classify.ts'
import { isAddressDead } from '../delivery/dead-address.ts'

export interface ReportedBounce {
  /** `soft`: the reporting server gave up after trying for a time; nobody refused the mail for good. */
  readonly bounceType: 'hard' | 'soft'
  readonly bounceCategory: BounceCategory
  /** The address itself takes no mail, so it goes on the suppression list. */
  readonly isAddressDead: boolean
}

/** Judges the status and diagnostic of a recipient whose action is `failed`. */
export function judgeFailure({ status, diagnostic }: Pick<ReportedRecipient, 'status' | 'diagnostic'>): ReportedBounce {
  const reply = replyOf(status, diagnostic ?? '')
  // The command that was refused is not known; the rules of the latest one take least for granted.
  const bounceCategory = reply.code < 500 ? 'expired' : classifyReply(reply, 'body')
  if (bounceCategory === 'expired') return { bounceType: 'soft', bounceCategory, isAddressDead: false }
  return { bounceType: 'hard', bounceCategory, isAddressDead: isAddressDead(reply, 'body') }
}

/** A reply code, and the enhanced one where there is one: at the beginning, or where the server that refused is quoted. */
const REPLY_CODE = /(?<![\d.:])([45]\d\d)(?:[ -]#?(([45])\.\d{1,3}\.\d{1,3})(?!\.?\d)|(?=[ -]))/

/** The reply that the reporting server got or would have given. */
function replyOf(status: string | null, diagnostic: string): SmtpReply {
  const quoted = REPLY_CODE.exec(diagnostic)
  const quotedCode = quoted?.[1] === undefined ? undefined : Number(quoted[1])
  const quotedStatus = quoted?.[2]
  const isVague = status === null || /^[245]\.0\.0$/.test(status)
  const isTemporary = isVague
    ? // 5.0.0 is "failed"; what was tried until it was given up is told by the reply.
      quotedCode === undefined
      ? status?.startsWith('4') === true
      : quotedCode < 500
    : status.startsWith('4')
  const enhanced = isVague ? (quotedStatus ?? status ?? undefined) : status
  const code = isTemporary ? 451 : quotedCode !== undefined && quotedCode >= 500 ? quotedCode : 554
  const reply = { code, lines: [diagnostic], text: diagnostic }
  return enhanced === undefined ? reply : { ...reply, enhanced }
}
