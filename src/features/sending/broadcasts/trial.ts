/**
 * @module Tries a broadcast with the first of its contacts before anything is sent: a variable that nobody has is told to its sender, not to the dead
 * letters. Never sends, and never stores what it rendered.
 */
import type { App } from '#features/core/app/app.ts'
import {
  broadcastDataJson,
  contactFault,
  sharedDataJson,
  subjectFault,
} from '#features/setup/templates/broadcast-data.ts'
import { withSubjectInLine } from '#features/setup/templates/render.ts'
import { AppError } from '#platform/errors.ts'
import type { RenderOutcome, TemplateFault } from '#platform/template/renderer.ts'
import { contactOf, firstRecipients } from './recipients.ts'

/** What is rendered for each. */
export interface TrialInput {
  readonly subject: string | undefined
  readonly html: string | undefined
  readonly text: string | undefined
  readonly templateData: Readonly<Record<string, unknown>> | undefined
  readonly list: { readonly name: string }
}

/** Contacts that are tried. */
const TRIED = 20

/**
 * Renders for the first contacts that were fixed. Throws 422 `template_error` when it works for none of them; gives a sentence when it does not work for
 * some, undefined when it works for all.
 */
export async function tryBroadcast(
  app: App,
  accountId: number,
  broadcastId: number,
  { subject, html, text, templateData, list }: TrialInput,
): Promise<string | undefined> {
  const shared = sharedDataJson(templateData, list)
  const source = withSubjectInLine({ subject, html, text })
  const fixed = firstRecipients(app.db, broadcastId, TRIED + 1)
  const recipients = fixed.slice(0, TRIED)
  const outcomes = await Promise.all(
    recipients.map((recipient) =>
      app.renderer.render({
        accountId,
        urgency: 'now',
        source,
        dataJson: broadcastDataJson({
          shared,
          contact: contactOf(recipient),
          unsubscribeUrl: 'https://unsubscribe.invalid/',
        }),
      }),
    ),
  )
  const faults = outcomes.flatMap((outcome) => faultOf(outcome) ?? [])
  const [first] = faults
  if (!first) return undefined
  const tried =
    fixed.length === 1
      ? 'the only contact'
      : `${fixed.length > TRIED ? 'the first' : 'all'} ${recipients.length} contacts`
  if (faults.length === recipients.length) {
    const message = `It was tried with ${tried} and works for none: ${contactFault(first)}`
    throw new AppError(422, first.kind === 'limit' ? 'template_limit' : 'template_error', message, {
      details: [{ field: first.part ?? 'template', message: contactFault(first) }],
    })
  }
  return `It was tried with ${tried} and fails for ${faults.length} of them: ${contactFault(first)}`
}

/** What is wrong with what was rendered for a contact; undefined: nothing. */
function faultOf(outcome: RenderOutcome): TemplateFault | undefined {
  if (outcome.kind === 'fault') return outcome.fault
  const message = subjectFault(outcome.parts.subject ?? '')
  return message === undefined
    ? undefined
    : { kind: 'error', part: 'subject', line: undefined, variable: undefined, message }
}
