/** @module The steps of the checklist and which of them are done, from what `/v1` returned. */

export type StepName = 'domain' | 'key' | 'email' | 'webhook' | 'authenticator'

/** What is known; undefined: the role may not see it. */
export interface SetupFacts {
  readonly domains: readonly { readonly status: string }[] | undefined
  readonly keys: readonly unknown[] | undefined
  readonly sent: readonly { readonly sandbox: boolean }[] | undefined
  readonly webhooks: readonly { readonly last_success_at: string | null }[] | undefined
  readonly hasReadEvents: boolean
  readonly hasAuthenticator: boolean
}

export interface Step {
  readonly name: StepName
  readonly isDone: boolean
}

/** Mail of a domain that was never verified is captured, not delivered. */
export const hasDelivered = (sent: readonly { readonly sandbox: boolean }[]): boolean =>
  sent.some(({ sandbox }) => !sandbox)

/** The steps that the role can see, in the order in which they are taken. */
export function listSteps({ domains, keys, sent, webhooks, hasReadEvents, hasAuthenticator }: SetupFacts): Step[] {
  const steps: readonly (readonly [StepName, boolean | undefined])[] = [
    ['domain', domains?.some(({ status }) => status === 'verified')],
    ['key', keys && keys.length > 0],
    ['email', sent && hasDelivered(sent)],
    ['webhook', webhooks && (hasReadEvents || webhooks.some(({ last_success_at }) => last_success_at !== null))],
    ['authenticator', hasAuthenticator],
  ]
  return steps.flatMap(([name, isDone]) => (isDone === undefined ? [] : [{ name, isDone }]))
}

/** Whether so much is set up that the rest can wait. */
export const isMostlyDone = (steps: readonly Step[]): boolean =>
  steps.filter(({ isDone }) => isDone).length * 2 > steps.length
