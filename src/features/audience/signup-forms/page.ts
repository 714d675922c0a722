/**
 * @module The public page of a signup form, its URL, and the code that embeds it in another page. Pure: from values to
 * HTML without scripts; it loads nothing from another host. Input of an account or a visitor appears as text only; of a
 * theme only the output of `themeStyle` becomes CSS.
 */
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { escapeHtml, type Html, html, htmlPage } from '#platform/http/html.ts'
import type { Config } from '#platform/settings/config.ts'
import { type CustomField, type FieldType, isTicked, MAX_ANSWER_LENGTH } from './custom-fields.ts'
import { getMessage } from './messages.ts'
import type { SignupForm } from './signup-forms.ts'
import { type Theme, themeStyle } from './theme.ts'

/** Name of the address field. */
export const EMAIL_FIELD = 'email'
/** The longest address in SMTP (RFC 5321 §4.5.3.1.3), plus space for characters pasted around it. */
export const MAX_EMAIL_LENGTH = 320
/** A field that people do not see and bots fill in. Neither a custom field nor an autofill has this name. */
export const TRAP_FIELD = 'homepage-url'

/** A form as the page shows it. */
export interface FormView {
  readonly form: SignupForm
  readonly isEmbedded: boolean
}

/** A visitor's input, shown again with its problems. */
export interface FilledForm {
  readValue(name: string): unknown
  readonly problems: readonly FieldProblem[]
  /** A problem that belongs to no field. */
  readonly notice?: string
}

export interface FieldProblem {
  readonly name: string
  readonly message: string
}

const EMPTY: FilledForm = { readValue: () => undefined, problems: [] }

/** Anchor of the result on an embedded page: browsers scroll there if the frame is too low. */
const RESULT_ID = 'answer'

/** The form, empty or with a visitor's input. */
export const formPage = (view: FormView, filled: FilledForm = EMPTY): Html => {
  const { form, isEmbedded } = view
  const problemHtml = problemSummary(view, filled)
  return renderPage(
    { ...view, hasResult: problemHtml !== false },
    html`${introHtml(form)}
${!isEmbedded && problemHtml}
<form method="post"${isEmbedded && html` action="#${RESULT_ID}"`}${form.customFields.length > 0 && html` enctype="multipart/form-data"`}>
${fieldsHtml(view, filled)}
<div class="apart" aria-hidden="true"><label for="${TRAP_FIELD}">Leave this empty</label><input id="${TRAP_FIELD}" name="${TRAP_FIELD}" type="text" tabindex="-1" autocomplete="off"></div>
${isEmbedded && problemHtml}
<button>${getMessage(form.messages, 'submit_button')}</button>
</form>`,
  )
}

/**
 * The result of a post, in the account's texts. In a frame, the form stays as it was sent and the result replaces the
 * button, because the page around the frame stays scrolled to the button.
 */
export const resultPage = (
  view: FormView,
  sentences: readonly string[],
  {
    next,
    readValue = EMPTY.readValue,
  }: { readonly next?: URL | undefined } & Partial<Pick<FilledForm, 'readValue'>> = {},
): Html => {
  const { form, isEmbedded } = view
  const status = html`<div role="status">${sentences.map((sentence) => html`<p class="lead">${sentence}</p>`)}</div>
${next && html`<p><a href="${next.href}" target="_top">Continue to ${next.host}</a></p>`}`
  return renderPage(
    { ...view, hasResult: true },
    isEmbedded
      ? html`${introHtml(form)}
<form><fieldset disabled>
${fieldsHtml(view, { ...EMPTY, readValue })}
</fieldset></form>
<div class="done" id="${RESULT_ID}">${status}</div>`
      : html`<h1>${form.title}</h1>
${status}`,
  )
}

const introHtml = ({ title, description }: SignupForm): Html => html`<h1>${title}</h1>
${description !== null && html`<p class="lead">${description}</p>`}`

function fieldsHtml({ form, isEmbedded }: FormView, filled: FilledForm): Html {
  const { customFields, messages } = form
  const first = filled.problems[0]?.name
  const findProblem = (name: string) => filled.problems.find((problem) => problem.name === name)?.message
  // An embedded page must not take the focus from the page around it, and browsers do not let it.
  const isFocused = (name: string) => name === first && !isEmbedded
  const placeholder = getMessage(messages, 'email_placeholder')
  const email = fieldHtml({
    name: EMAIL_FIELD,
    label: getMessage(messages, 'email_label'),
    type: 'email',
    required: true,
    isMarked: customFields.length > 0,
    value: filled.readValue(EMAIL_FIELD),
    problem: findProblem(EMAIL_FIELD),
    isFocused: isFocused(EMAIL_FIELD),
    isSummarised: isEmbedded,
    attributes: html` maxlength="${MAX_EMAIL_LENGTH}" autocomplete="email" inputmode="email" autocapitalize="none" spellcheck="false"${
      placeholder !== '' && html` placeholder="${placeholder}"`
    }`,
  })
  const others = customFields.map((field) => {
    const { name, required } = field
    return fieldHtml({
      ...field,
      isMarked: required,
      value: filled.readValue(name),
      problem: findProblem(name),
      isFocused: isFocused(name),
      isSummarised: isEmbedded,
      attributes: fieldAttributes(field),
    })
  })
  return html`${email}
${others}`
}

/** There is no such form, or it is deactivated. */
export const formNotFoundPage = (isEmbedded: boolean): Html =>
  htmlPage({
    title: 'This form is not available',
    style: isEmbedded ? EMBEDDED_STYLE : '',
    main: html`<h1>This form is not available</h1>
<p>It was deactivated or has moved. Ask the person who gave you its address.</p>`,
  })

/** Too many posts: a page of one sentence, whatever was posted. */
export const tooManyAttemptsPage = (isEmbedded: boolean, sentence: string): Html =>
  htmlPage({
    title: 'Too many attempts',
    style: isEmbedded ? EMBEDDED_STYLE : '',
    main: html`<h1>Too many attempts</h1>
<p role="alert">${sentence} What you entered is still there when you go back in your browser.</p>`,
  })

interface Field {
  readonly name: string
  readonly label: string
  readonly type: FieldType
  readonly required: boolean
  /** Whether required fields are marked, to distinguish them from optional ones. */
  readonly isMarked: boolean
  readonly value: unknown
  readonly problem: string | undefined
  readonly isFocused: boolean
  /** Whether only the summary shows its problem. */
  readonly isSummarised: boolean
  readonly attributes: Html
}

function fieldHtml(field: Field): Html {
  const { name, type, required, isMarked, value, problem, isFocused, isSummarised, attributes } = field
  const id = toFieldId(name)
  const label = html`${field.label}${isMarked && html`<span aria-hidden="true"> *</span>`}`
  const common = html`id="${id}" name="${name}"${required && html` required`}${isFocused && html` autofocus`}${
    problem !== undefined && html` aria-invalid="true" aria-describedby="${id}-fault"`
  }${attributes}`
  const text = typeof value === 'string' || typeof value === 'number' ? String(value).slice(0, MAX_ANSWER_LENGTH) : ''
  const below = problem !== undefined && !isSummarised && html`<p class="fault" id="${id}-fault">${problem}</p>`
  switch (type) {
    case 'checkbox':
      return html`<div class="field"><label class="tick"><input type="checkbox" value="yes" ${common}${isTicked(value) && html` checked`}><span>${label}</span></label>${below}</div>
`
    case 'textarea':
      // A line break directly after the tag is not part of the value.
      return html`<div class="field"><label for="${id}">${label}</label><textarea rows="4" ${common}>
${text}</textarea>${below}</div>
`
    default:
      return html`<div class="field"><label for="${id}">${label}</label><input type="${type}" value="${text}" ${common}>${below}</div>
`
  }
}

const toFieldId = (name: string): string => `field-${name}`

/** Names by which browsers know personal data (WCAG 2.2 §1.3.5). */
const AUTOCOMPLETE: Readonly<Record<string, string>> = {
  name: 'name',
  full_name: 'name',
  first_name: 'given-name',
  firstname: 'given-name',
  last_name: 'family-name',
  lastname: 'family-name',
  company: 'organization',
  organization: 'organization',
  country: 'country-name',
  city: 'address-level2',
  zip: 'postal-code',
  postal_code: 'postal-code',
  birthday: 'bday',
}

function fieldAttributes({ name, type }: CustomField): Html {
  if (type === 'checkbox') return html``
  const autocompleteName =
    type === 'tel' ? 'tel' : type === 'url' ? 'url' : Object.hasOwn(AUTOCOMPLETE, name) ? AUTOCOMPLETE[name] : undefined
  const autocomplete = autocompleteName !== undefined && html` autocomplete="${autocompleteName}"`
  if (type === 'date') return html`${autocomplete}`
  if (type === 'number') return html` step="any" inputmode="decimal"`
  return html` maxlength="${MAX_ANSWER_LENGTH}"${autocomplete}`
}

/** All problems, each with a link to its field: before the fields, or in a frame at the button. */
function problemSummary({ form, isEmbedded }: FormView, { problems, notice }: FilledForm): Html | false {
  if (problems.length === 0 && notice === undefined) return false
  const labelOf = (name: string) => form.customFields.find((field) => field.name === name)?.label
  const items = problems.map(({ name, message }) => {
    const label = labelOf(name)
    return html`<li${isEmbedded && html` id="${toFieldId(name)}-fault"`}><a href="#${toFieldId(name)}">${label !== undefined && `${label}: `}${message}</a></li>`
  })
  return html`<div class="wrong"${isEmbedded && html` id="${RESULT_ID}"`} role="alert">${notice !== undefined && html`<p>${notice}</p>`}${items.length > 0 && html`<ul>${items}</ul>`}</div>`
}

/** This page's browser tests measure contrast (WCAG 2.2 §1.4.3, §1.4.11) and sizes (§2.5.8). */
const STYLE = `
:root { --error: #b3261e; --accent: var(--strong); --button: var(--strong); --on-button: var(--on-strong); --radius: 8px; --font: system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  :root { --error: #ffb4ab; }
}
body { font-family: var(--font); }
a { color: var(--accent); }
.lead { white-space: pre-line; }
form { margin: 1.5rem 0 0; position: relative; }
.field { margin: 0 0 1.25rem; }
label { display: block; margin: 0 0 .375rem; font-weight: 600; overflow-wrap: anywhere; }
input, textarea { display: block; width: 100%; min-height: 2.75rem; padding: .5rem .75rem; border: 1px solid var(--edge); border-radius: var(--radius); background: var(--card); color: var(--text); font: inherit; }
textarea { resize: vertical; }
::placeholder { color: var(--faint); opacity: 1; }
.tick { display: flex; gap: .75rem; align-items: flex-start; min-height: 2.75rem; padding: .5rem 0; font-weight: 400; }
.tick input { flex: none; width: 1.5rem; min-height: 1.5rem; height: 1.5rem; margin: .0625rem 0 0; accent-color: var(--accent); }
[role=status] + p { margin-top: 1rem; }
[aria-invalid] { border: 2px solid var(--error); }
.fault { margin: .375rem 0 0; color: var(--error); font-weight: 600; }
.wrong { margin: 0 0 1.5rem; padding: 1rem; border: 2px solid var(--error); border-radius: var(--radius); overflow-wrap: anywhere; }
.wrong p, .wrong ul { margin: 0; }
.wrong ul { padding: 0 0 0 1.25rem; }
.wrong a { color: var(--error); }
button { min-height: 2.75rem; min-width: min(12rem, 100%); max-width: 100%; padding: .625rem min(1.5rem, 5%); border: 2px solid var(--button); border-radius: var(--radius); background: var(--button); color: var(--on-button); font: inherit; font-weight: 600; cursor: pointer; overflow-wrap: anywhere; }
button:hover { text-decoration: underline; }
:is(input, textarea, button, a):focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.apart { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.made { margin: 1.5rem 0 0; padding-top: 1rem; border-top: 1px solid var(--line); font-size: .875rem; color: var(--faint); }
@media (max-width: 30rem) {
  button { width: 100%; }
}
`

/** Embedded in another page, the form has no background of its own. */
const EMBEDDED_STYLE = `
body { padding: 0; background: var(--card); }
main { padding: 1rem; border: 0; border-radius: 0; }
fieldset { min-width: 0; margin: 0; padding: 0; border: 0; }
.wrong { margin: 0 0 .75rem; padding: 0; border: 0; font-size: .875rem; font-weight: 600; }
.wrong ul { padding: 0; list-style: none; }
.done { padding: .5rem .75rem; border: 2px solid var(--accent); border-radius: var(--radius); font-weight: 600; }
.done p { margin: 0; }
`

interface PageView extends FormView {
  /** Whether the page shows the result of a post; in a frame the result takes the space of the last line. */
  readonly hasResult: boolean
}

const renderPage = ({ form, isEmbedded, hasResult }: PageView, main: Html): Html =>
  htmlPage({
    title: form.title,
    style: STYLE + (isEmbedded ? EMBEDDED_STYLE : '') + themeStyle(form.theme),
    main: html`${main}
${!(isEmbedded && hasResult) && brandingHtml(form.theme)}`,
  })

const brandingHtml = ({ hide_branding }: Theme): Html | false =>
  hide_branding !== true && html`<p class="made">Made with Tassis</p>`

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
