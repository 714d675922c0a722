/**
 * @module The pages where people sign in, set a password and accept an invitation. Pure: from values to HTML, without
 * scripts and without resources of another host; user input appears as text only.
 */
import { type Html, type HtmlValue, html, htmlPage } from '#platform/http/html.ts'
import type { Proof } from './join.ts'
import { DASHBOARD_PATH, JOIN_PATH, LOGIN_PATH, LOGOUT_PATH, RESET_PATH, WEBHOOKS_PATH } from './links.ts'
import { MAX_PASSWORD_LENGTH, MIN_PASSWORD_LENGTH } from './passwords.ts'

/** What was wrong with the submitted form, in one sentence. */
export interface FormProblem {
  readonly message?: string | undefined
}

/** This page's browser tests measure contrast (WCAG 2.2 §1.4.3, §1.4.11) and sizes (§2.5.8). */
const STYLE = `
:root { --error: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --error: #ffb4ab; }
}
form { margin: 1.5rem 0 0; }
.field { margin: 0 0 1.25rem; }
label { display: block; margin: 0 0 .375rem; font-weight: 600; }
.hint { margin: .375rem 0 0; font-size: .9375rem; color: var(--faint); }
input { display: block; width: 100%; min-height: 2.75rem; padding: .5rem .75rem; border: 1px solid var(--edge); border-radius: 8px; background: var(--card); color: var(--text); font: inherit; }
.wrong { margin: 0; padding: 1rem; border: 2px solid var(--error); border-radius: 8px; color: var(--error); font-weight: 600; }
button { min-height: 2.75rem; min-width: min(12rem, 100%); max-width: 100%; padding: .625rem min(1.5rem, 5%); border: 2px solid var(--strong); border-radius: 8px; background: var(--strong); color: var(--on-strong); font: inherit; font-weight: 600; cursor: pointer; overflow-wrap: anywhere; }
button:hover { text-decoration: underline; }
.quiet button { background: var(--card); color: var(--strong); }
:is(input, button, a):focus-visible { outline: 3px solid var(--strong); outline-offset: 2px; }
.beside { margin: 1.5rem 0 0; padding-top: 1rem; border-top: 1px solid var(--line); }
@media (max-width: 30rem) {
  button { width: 100%; }
}
`

/** A page for users in the service's style. */
export const userPage = (title: string, main: Html): Html =>
  htmlPage({
    title: `${title} · Tassis`,
    style: STYLE,
    main: html`<h1>${title}</h1>
${main}`,
  })

const problemHtml = ({ message }: FormProblem): HtmlValue =>
  message !== undefined && html`<p class="wrong" id="wrong" role="alert">${message}</p>`

interface Field {
  readonly name: string
  readonly label: string
  readonly attributes: Html
  readonly hint?: string
}

const fieldHtml = ({ name, label, attributes, hint }: Field): Html => html`<div class="field">
<label for="${name}">${label}</label>
<input id="${name}" name="${name}"${hint !== undefined && html` aria-describedby="${name}-hint"`}${attributes}>
${hint !== undefined && html`<p class="hint" id="${name}-hint">${hint}</p>`}
</div>`

export const hiddenField = (name: string, value: string): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`

const emailField = (email: string): Html =>
  fieldHtml({
    name: 'email',
    label: 'Email address',
    attributes: html` type="email" value="${email}" required maxlength="320" autocomplete="username" inputmode="email" autocapitalize="none" spellcheck="false"`,
  })

const PASSWORD_FIELD = fieldHtml({
  name: 'password',
  label: 'Password',
  attributes: html` type="password" required maxlength="${MAX_PASSWORD_LENGTH}" autocomplete="current-password"`,
})

const NEW_PASSWORD_FIELD = fieldHtml({
  name: 'password',
  label: 'New password',
  hint: `At least ${MIN_PASSWORD_LENGTH} characters. Four unrelated words make a good one.`,
  attributes: html` type="password" required minlength="${MIN_PASSWORD_LENGTH}" maxlength="${MAX_PASSWORD_LENGTH}" autocomplete="new-password"`,
})

const CODE_FIELD = fieldHtml({
  name: 'code',
  label: 'Code',
  hint: 'Only if you use an authenticator app: six digits, or a recovery code.',
  attributes: html` maxlength="50" autocomplete="one-time-code" autocapitalize="none" spellcheck="false"`,
})

export interface LoginView extends FormProblem {
  readonly email?: string
  /** The page that signing in leads to. */
  readonly next?: string
}

export const loginPage = ({ email = '', next = LOGIN_PATH, ...problem }: LoginView = {}): Html =>
  userPage(
    'Sign in',
    html`${problemHtml(problem)}
<form method="post" action="${LOGIN_PATH}">
${next !== LOGIN_PATH && hiddenField('next', next)}
${emailField(email)}
${PASSWORD_FIELD}
${CODE_FIELD}
<button>Sign in</button>
</form>
<p class="beside"><a href="${RESET_PATH}">Set a new password</a></p>`,
  )

/** The signed-in user. */
export interface SignedInView {
  readonly email: string
  readonly accountName: string
  readonly role: string
  readonly csrfToken: string
  readonly hasDashboard: boolean
}

export const signedInPage = ({ email, accountName, role, csrfToken, hasDashboard }: SignedInView): Html =>
  userPage(
    'You are signed in',
    html`<p>As <strong>${email}</strong>, ${role} of <strong>${accountName}</strong>.</p>
${
  hasDashboard &&
  html`<p><a href="${DASHBOARD_PATH}">Dashboard</a></p>
`
}<p><a href="${WEBHOOKS_PATH}">Webhook signing secrets</a></p>
<p><a href="/docs">API documentation</a></p>
<form class="quiet" method="post" action="${LOGOUT_PATH}">
${hiddenField('csrf_token', csrfToken)}
<button>Sign out</button>
</form>`,
  )

export const resetRequestPage = ({ email = '', ...problem }: FormProblem & { readonly email?: string } = {}): Html =>
  userPage(
    'Set a new password',
    html`<p>We will send you a link valid for one hour.</p>
${problemHtml(problem)}
<form method="post" action="${RESET_PATH}">
${emailField(email)}
<button>Send the link</button>
</form>
<p class="beside"><a href="${LOGIN_PATH}">Sign in</a></p>`,
  )

export const resetRequestedPage = (): Html =>
  userPage(
    'Check your inbox',
    html`<p role="status">If there is a user with this address, a mail is on its way. It can take a few minutes.</p>
<p class="beside"><a href="${LOGIN_PATH}">Sign in</a></p>`,
  )

export const newPasswordPage = (token: string, email: string, problem: FormProblem = {}): Html =>
  userPage(
    'Set a new password',
    html`<p>For <strong>${email}</strong>. You will be signed out everywhere.</p>
${problemHtml(problem)}
<form method="post" action="${RESET_PATH}">
${hiddenField('token', token)}
<input type="hidden" name="username" value="${email}" autocomplete="username">
${NEW_PASSWORD_FIELD}
<button>Set the password</button>
</form>`,
  )

export const passwordSetPage = (): Html =>
  userPage(
    'Password set',
    html`<p role="status">You have been signed out everywhere.</p>
<p><a href="${LOGIN_PATH}">Sign in with the new password</a></p>`,
  )

/** @param next where the user can get a new link */
export const invalidLinkPage = (next: 'reset' | 'invitation'): Html =>
  userPage(
    'This link is no longer valid',
    next === 'reset'
      ? html`<p>It was already used, has expired or is incomplete.</p>
<p><a href="${RESET_PATH}">Request a new one</a></p>`
      : html`<p>It was already used, was revoked, has expired or is incomplete. Ask the person who invited you for a new one.</p>
<p><a href="${LOGIN_PATH}">Sign in</a></p>`,
  )

export interface InvitationView extends FormProblem {
  readonly token: string
  readonly email: string
  readonly accountName: string
  readonly role: string
  readonly proof: Proof
  /** Token of the session that proves who the invited person is. */
  readonly csrfToken?: string | undefined
  readonly name?: string | undefined
}

export const joinPage = ({
  token,
  email,
  accountName,
  role,
  proof,
  csrfToken,
  name = '',
  ...problem
}: InvitationView): Html =>
  userPage(
    `Join ${accountName}`,
    html`<p>You are invited as ${role}, with the address <strong>${email}</strong>.</p>
${problemHtml(problem)}
<form method="post" action="${JOIN_PATH}">
${hiddenField('token', token)}
${csrfToken !== undefined && hiddenField('csrf_token', csrfToken)}
<input type="hidden" name="username" value="${email}" autocomplete="username">
${
  proof === 'new-password' && [
    fieldHtml({
      name: 'name',
      label: 'Your name',
      attributes: html` type="text" value="${name}" maxlength="200" autocomplete="name"`,
    }),
    NEW_PASSWORD_FIELD,
  ]
}
${proof === 'password' && [PASSWORD_FIELD, CODE_FIELD]}
<button>Join</button>
</form>
${proof === 'password' && html`<p class="beside"><a href="${RESET_PATH}">Set a new password</a></p>`}`,
  )

/**
 * A page that says what failed and why.
 * @param back link to the page where the user can continue; default: signing in
 */
export const errorPage = (message: string, back = html`<a href="${LOGIN_PATH}">Sign in</a>`): Html =>
  userPage(
    'Something went wrong',
    html`<p role="alert">${message}</p>
<p>${back}</p>`,
  )
