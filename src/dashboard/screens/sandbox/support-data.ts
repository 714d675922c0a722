/**
 * @module The shape of `email-support.json`: which HTML and CSS the big mail clients support, from caniemail.com (MIT).
 * `scripts/email-support.ts` writes it.
 */

export interface EmailSupport {
  /** Day of the data. */
  readonly updatedAt: string
  readonly clients: readonly { readonly family: string; readonly name: string }[]
  /** Only those that at least one of the clients does not fully support. */
  readonly features: readonly Feature[]
}

export interface Feature {
  readonly slug: string
  readonly title: string
  /** What shows it in a message; see `scan.ts`. */
  readonly tokens: readonly string[]
  /** One letter for each client: y yes, a partly, n no, u unknown. */
  readonly support: string
  readonly notes: readonly string[]
  /** Indexes of the notes, for each client. */
  readonly noted: readonly (readonly number[])[]
}
