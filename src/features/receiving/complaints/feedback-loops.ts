/**
 * @module Finds the provider whose feedback loop sent a report, proven by SPF or DKIM. Knows the senders of public
 * loops and those that the operator adds. Pure; never reads the report itself.
 */
import type { ReceivedMail } from '#features/receiving/received/message.ts'
import type { Config } from '#platform/settings/config.ts'
import data from './feedback-loops.json' with { type: 'json' }

/**
 * Providers by the senders of their feedback loops. Each sender is a whole address, because some of the domains also
 * host mailboxes for the public, whose mail passes SPF and DKIM too.
 */
const PROVIDERS_BY_SENDER = new Map(
  Object.entries(data.senders).flatMap(([provider, senders]) => senders.map((sender) => [sender, provider] as const)),
)

/**
 * The provider whose feedback loop sent a message; undefined: no known loop, or no proof. SPF proves the envelope
 * sender, an aligned DKIM signature proves From.
 */
export function findFeedbackLoop(
  { feedbackLoops }: Pick<Config, 'feedbackLoops'>,
  { envelope, message, authentication }: Pick<ReceivedMail, 'envelope' | 'message' | 'authentication'>,
): string | undefined {
  const { spf, dkim } = authentication.details
  const provenAddresses: string[] = []
  if (spf.result === 'pass' && spf.identity === 'mailfrom') provenAddresses.push(envelope.mailFrom)
  const [from, ...others] = message?.fromAddresses ?? []
  if (from !== undefined && others.length === 0 && dkim.some(({ result, aligned }) => result === 'pass' && aligned))
    provenAddresses.push(from)
  return provenAddresses
    .map((address) => findProvider(feedbackLoops, address.toLowerCase()))
    .find((provider) => provider !== undefined)
}

function findProvider(extraEntries: readonly string[], address: string): string | undefined {
  const known = PROVIDERS_BY_SENDER.get(address)
  if (known !== undefined) return known
  const domain = address.slice(address.lastIndexOf('@') + 1)
  return extraEntries.find((entry) => entry === address || entry === domain)
}
