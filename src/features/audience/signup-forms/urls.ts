/** @module The URL of a form's page, and the code that embeds it in another page. */

import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { escapeHtml } from '#platform/http/html.ts'
import type { Config } from '#platform/settings/config.ts'
import type { FieldType } from './custom-fields.ts'
import type { SignupForm } from './signup-forms.ts'

export const SUBSCRIBE_PATH = '/subscribe'
/** Query of the variant that can be embedded in another page. */
export const EMBED_QUERY = 'embed'

/** Public URL of a form's page. */
export const formUrl = ({ publicUrl }: Pick<Config, 'publicUrl'>, { slug }: Pick<SignupForm, 'slug'>): string =>
  `${trimTrailingSlashes(publicUrl)}${SUBSCRIBE_PATH}/${slug}`

/**
 * Heights in CSS pixels, measured at the width of a small phone; a taller page scrolls in the frame. The result of a
 * post fits too.
 */
const BASE_PX = 336
const LINK_PX = 27
const FIELD_PX: Readonly<Record<FieldType, number>> = {
  text: 106,
  textarea: 186,
  email: 106,
  number: 106,
  tel: 106,
  url: 106,
  date: 106,
  checkbox: 124,
}
const TITLE = { linePx: 37, charactersPerLine: 20 }
const DESCRIPTION = { linePx: 27, charactersPerLine: 30, marginPx: 18 }

/** An iframe with the form. A frame cannot report its height without a script, so its height is estimated here. */
export function embedCode(config: Pick<Config, 'publicUrl'>, form: SignupForm): string {
  const { title, description, customFields, redirectUrl } = form
  const heightPx =
    BASE_PX +
    (redirectUrl === null ? 0 : LINK_PX) +
    (countLines(title, TITLE.charactersPerLine) - 1) * TITLE.linePx +
    (description === null
      ? 0
      : countLines(description, DESCRIPTION.charactersPerLine) * DESCRIPTION.linePx + DESCRIPTION.marginPx) +
    customFields.reduce((sum, { type }) => sum + FIELD_PX[type], 0)
  return `<iframe src="${escapeHtml(formUrl(config, form))}?${EMBED_QUERY}=1" title="${escapeHtml(title)}" width="100%" height="${heightPx}" style="border: 0" loading="lazy"></iframe>`
}

const countLines = (text: string, charactersPerLine: number): number =>
  text.split('\n').reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / charactersPerLine)), 0)
