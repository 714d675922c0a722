/**
 * @module Classifies a reported failure: bounce type, category, and whether the address is permanently invalid. Uses
 * the rules for direct replies. Pure.
 */

import { type BounceCategory, toBounceType } from '#features/sending/delivery/model/bounce-category.ts'
import { findRule, type Phase } from '#features/sending/delivery/verdict/classify.ts'
import { isPermanentlyInvalid } from '#features/sending/delivery/verdict/permanently-invalid.ts'
import { isUnknownDomain, normaliseReply } from '#features/sending/delivery/verdict/reply-words.ts'
import type { DsnRecipient } from '#protocols/dsn/report.ts'
import { isVagueStatus } from '#protocols/dsn/standard.ts'
import type { SmtpReply } from '#protocols/smtp/replies.ts'

export interface ReportedBounce {
  /** As for direct replies: only a rejection of the recipient itself is `hard`. */
  readonly bounceType: 'hard' | 'soft'
  readonly bounceCategory: BounceCategory
  /** Id of the rule that decided. */
  readonly rule: string
  /** The address accepts no mail, so it goes on the suppression list. */
  readonly isPermanentlyInvalid: boolean
}

/** Classifies the status and diagnostic of a recipient whose action is `failed`. */
export function classifyFailure({ status, diagnostic }: Pick<DsnRecipient, 'status' | 'diagnostic'>): ReportedBounce {
  const reply = toReply(status, diagnostic ?? '')
  const phase = findPhase(diagnostic ?? '')
  const { id: rule, category } = findRule(reply, phase)
  const bounceCategory = reply.code < 500 ? 'expired' : category
  if (bounceCategory === 'expired') return { bounceType: 'soft', bounceCategory, rule, isPermanentlyInvalid: false }
  return {
    bounceType: toBounceType(bounceCategory),
    bounceCategory,
    rule,
    isPermanentlyInvalid: isPermanentlyInvalid(reply, phase),
  }
}

/**
 * The SMTP command that the reporting server names: Postfix writes it after the reply, Exim before the reply. If a
 * diagnostic names no command, `findPhase` assumes the last phase, because a rejection there says least about the
 * address.
 */
const REJECTED_COMMAND = /(?:in reply to|error from remote mail server after)(?: pipelined)? (MAIL FROM|RCPT TO)/i

function findPhase(diagnostic: string): Exclude<Phase, 'session'> {
  const command = REJECTED_COMMAND.exec(diagnostic)?.[1]?.toUpperCase()
  return command === 'MAIL FROM' ? 'mail' : command === 'RCPT TO' ? 'rcpt' : 'body'
}

/** A reply code with its enhanced code, if any: at the start, or where the rejecting server is quoted. */
const REPLY_CODE = /(?<![\d.:])([45]\d\d)(?:[ -]#?(([45])\.\d{1,3}\.\d{1,3})(?!\.?\d)|(?=[ -]))/

/** The reply that the reporting server received, or that it would have sent. */
function toReply(status: string | null, diagnostic: string): SmtpReply {
  const quoted = REPLY_CODE.exec(diagnostic)
  const quotedCode = quoted?.[1] === undefined ? undefined : Number(quoted[1])
  const quotedStatus = quoted?.[2]
  const isVague = isVagueStatus(status)
  const isTemporary = isVague
    ? // 5.0.0 only means "failed"; the quoted reply shows whether temporary errors exhausted the retries.
      quotedCode === undefined
      ? // Gmail gives up at once, with the status 4.0.0, when a domain does not exist.
        status?.startsWith('4') === true && !isUnknownDomain(normaliseReply(diagnostic))
      : quotedCode < 500
    : status?.startsWith('4') === true
  const enhanced = (isVague ? quotedStatus : undefined) ?? status ?? undefined
  const code = isTemporary ? 451 : quotedCode !== undefined && quotedCode >= 500 ? quotedCode : 554
  // The text before the reply is the reporter's own.
  const text = quoted ? diagnostic.slice(quoted.index) : diagnostic
  const reply = { code, lines: [text], text }
  return enhanced === undefined ? reply : { ...reply, enhanced }
}
