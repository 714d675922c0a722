/** @module Words about actions on mail in the queue, which several commands share. Pure. */
import { toPrintable } from './output.ts'

export const formatInDelivery = (count: number): string => (count === 0 ? '' : `, ${count} in delivery left alone`)

export const formatHeldAndInDelivery = ({
  held,
  in_delivery: inDelivery,
}: {
  readonly held: number
  readonly in_delivery: number
}): string => `${held === 0 ? '' : `, ${held} held left alone`}${formatInDelivery(inDelivery)}`

/** The name of a site has spaces. */
export const formatArgument = (text: string): string =>
  text.includes(' ') ? `"${toPrintable(text)}"` : toPrintable(text)

/** Why an account may not send, and the commands that help its operator. */
export const formatSendingBlock = (block: string, account: string): string =>
  `${/[.!?]$/.test(block) ? block : `${block}.`} \`tassis accounts show ${account}\` shows it, \`tassis accounts resume ${account}\` ends a pause.`

export const formatSuspended = (provider: string): string =>
  `${toPrintable(provider)} is suspended, so its mail waits for the probe; \`tassis providers resume ${formatArgument(provider)}\` ends that.`
