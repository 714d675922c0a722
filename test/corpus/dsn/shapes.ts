/**
 * @module DSNs in the shapes of many mail systems, written for these tests, and the expected result of each.
 * `{{VERP}}`, `{{MESSAGE_ID}}` and `{{RECIPIENT}}` stand for values of the email that the DSN is about.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DsnRecipient } from '#protocols/dsn/fields.ts'

export interface About {
  readonly verp: string
  readonly messageId: string
  readonly recipient: string
}

/**
 * File; form; action and status of the recipient in the DSN; bounce type, bounce category and whether the address is
 * permanently invalid; which field names the recipient; which parts of the email are returned: its Message-ID, its
 * return path.
 */
export type Shape = readonly [
  file: string,
  form: 'standard' | 'heuristic',
  action: DsnRecipient['action'],
  status: string | null,
  judgement: string | null,
  named: 'final' | 'original' | 'nobody',
  returned: 'id' | 'path' | 'id+path' | 'none',
]

export const SHAPES: readonly Shape[] = [
  ['aol-text', 'heuristic', 'failed', '5.7.1', 'soft policy', 'final', 'id'],
  ['barracuda', 'standard', 'failed', '5.7.1', 'soft spam_content', 'final', 'id+path'],
  ['cisco-supplementary', 'standard', 'failed', '5.0.0', 'hard invalid_recipient dead', 'final', 'id'],
  ['courier', 'standard', 'failed', '5.0.0', 'hard invalid_recipient dead', 'final', 'id'],
  ['domino', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['encoded-parts', 'standard', 'failed', '5.3.4', 'soft message_too_large', 'final', 'none'],
  ['exchange-2003', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['exchange-5-5', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['exchange-restricted', 'standard', 'failed', '5.7.1', 'soft policy', 'final', 'id'],
  ['exchange-supplementary', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id'],
  ['exim-plain', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['exim-report', 'standard', 'failed', '5.0.0', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['exim-warning', 'heuristic', 'delayed', null, null, 'final', 'none'],
  ['failed-with-success', 'standard', 'none', '2.0.0', null, 'final', 'id'],
  ['forwarded', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'nobody', 'id'],
  ['french', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['gateway-text', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id'],
  ['gateway-text-full', 'standard', 'failed', '5.2.2', 'soft mailbox_full', 'final', 'id'],
  ['gateway-text-guess', 'standard', 'failed', '5.0.0', 'soft unknown', 'final', 'id'],
  ['gmail-full', 'standard', 'failed', '5.2.2', 'soft mailbox_full', 'final', 'id+path'],
  ['gmail-host-nxdomain', 'standard', 'failed', '4.0.0', 'soft expired', 'final', 'id'],
  ['gmail-nxdomain', 'standard', 'failed', '4.0.0', 'hard invalid_recipient dead', 'final', 'id'],
  ['gmail-text', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['gmail-unknown-user', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id'],
  ['gmx-german', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id'],
  ['google-group', 'standard', 'failed', '5.1.1', 'soft policy', 'final', 'id'],
  ['html-only', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['italian', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['japanese', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['mdaemon-full', 'heuristic', 'failed', '5.2.2', 'soft mailbox_full', 'final', 'id+path'],
  ['mdaemon-unknown-user', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'none'],
  ['mimecast', 'standard', 'failed', '5.7.1', 'soft policy', 'final', 'id+path'],
  ['mixed-with-status', 'standard', 'failed', '5.1.6', 'hard inactive_mailbox dead', 'final', 'id+path'],
  ['nothing-returned', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'original', 'none'],
  ['null-sender-unnamed', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'nobody', 'id'],
  ['opensmtpd', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id'],
  ['opensmtpd-expired', 'standard', 'failed', '4.4.7', 'soft expired', 'final', 'id'],
  ['opensmtpd-listed', 'standard', 'failed', '5.7.1', 'soft reputation', 'final', 'id'],
  ['opensmtpd-quoted', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id'],
  ['opensmtpd-relayed', 'standard', 'relayed', '2.0.0', null, 'final', 'id'],
  ['outlook-expired', 'standard', 'failed', '4.4.7', 'soft expired', 'final', 'id+path'],
  ['outlook-unknown-user', 'standard', 'failed', '5.1.10', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['portuguese', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['postfix-delayed', 'standard', 'delayed', '4.2.0', null, 'final', 'id'],
  ['postfix-delivered', 'standard', 'delivered', '2.0.0', null, 'final', 'id'],
  ['postfix-expired', 'standard', 'failed', '4.4.1', 'soft expired', 'final', 'id+path'],
  ['postfix-procmail', 'standard', 'failed', '5.1.1', 'hard invalid_recipient', 'final', 'id'],
  ['postfix-unknown-user', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['proofpoint', 'standard', 'failed', '5.0.0', 'soft spam_content', 'final', 'id+path'],
  ['qmail-expired', 'heuristic', 'failed', '4.4.1', 'soft expired', 'final', 'id+path'],
  ['qmail-remote-refusal', 'heuristic', 'failed', '5.2.1', 'hard inactive_mailbox dead', 'final', 'id+path'],
  ['qmail-unknown-user', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['relayed', 'standard', 'relayed', '2.0.0', null, 'final', 'id'],
  ['sendmail-deliverable', 'standard', 'none', '2.1.5', null, 'final', 'id'],
  ['sendmail-expired', 'standard', 'failed', '4.4.7', 'soft expired', 'final', 'id+path'],
  ['sendmail-old', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['sendmail-unknown-user', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['sendmail-warning', 'standard', 'delayed', '4.4.2', null, 'final', 'id'],
  ['ses', 'standard', 'failed', '5.4.1', 'hard invalid_recipient', 'final', 'id+path'],
  ['several-recipients', 'standard', 'failed', '5.2.1', 'hard inactive_mailbox dead', 'final', 'id+path'],
  ['sloppy', 'standard', 'failed', '5.2.2', 'soft mailbox_full', 'final', 'id+path'],
  ['smtputf8', 'standard', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
  ['spanish', 'heuristic', 'failed', '5.2.2', 'soft mailbox_full', 'final', 'id+path'],
  ['tonline-full', 'heuristic', 'failed', '5.2.2', 'soft mailbox_full', 'final', 'id'],
  ['tonline-german', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id'],
  ['too-large-text', 'heuristic', 'failed', '5.2.3', 'soft message_too_large', 'final', 'id'],
  ['unknown-host-text', 'heuristic', 'failed', '5.1.2', 'hard invalid_recipient', 'final', 'id'],
  ['webde-full', 'heuristic', 'failed', '5.2.2', 'soft mailbox_full', 'final', 'id+path'],
  ['without-cause', 'heuristic', 'failed', null, 'soft unknown', 'final', 'id'],
  ['yahoo-disabled', 'standard', 'failed', '5.0.0', 'hard inactive_mailbox dead', 'final', 'id+path'],
  ['yahoo-text', 'heuristic', 'failed', '5.1.1', 'hard invalid_recipient dead', 'final', 'id+path'],
]

/** Mail to the same addresses that is not a DSN. */
export const NO_REPORTS: readonly (readonly [file: string, isNull: boolean, isReplyOrReceipt: boolean])[] = [
  ['no-bounce-challenge', true, false],
  ['no-bounce-complaint', true, false],
  ['no-bounce-employee-left', true, true],
  ['no-bounce-forwarded-report', false, false],
  ['no-bounce-out-of-office', true, true],
  ['no-bounce-out-of-office-german', true, true],
  ['no-bounce-read-receipt', true, true],
  ['no-bounce-read-receipt-text', true, true],
  ['no-bounce-ticket', true, false],
  ['no-bounce-vacation', true, true],
  ['no-bounce-vacation-quotes-report', false, false],
]

/** Returns the octets of a message of the corpus about an email, with CRLF line ends. */
export function shapeBytes(file: string, { verp, messageId, recipient }: About): Uint8Array {
  const text = readFileSync(join(import.meta.dir, `${file}.eml`), 'latin1')
    .replaceAll('{{VERP}}', verp)
    .replaceAll('{{MESSAGE_ID}}', messageId)
    .replaceAll('{{RECIPIENT}}', recipient)
    .replaceAll('\n', '\r\n')
  return Buffer.from(text, 'latin1')
}
