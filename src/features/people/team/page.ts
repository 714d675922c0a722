/**
 * @module The pages where people sign in, set a password and accept an invitation. Pure: from values to HTML, without
 * scripts and without resources of another host; user input appears as text only.
 */
import { type Html, type HtmlValue, html, htmlPage } from '#platform/http/html.ts'
import type { Proof } from './join.ts'
import {
  DASHBOARD_PATH,
  JOIN_PATH,
  LOGIN_PATH,
  LOGOUT_PATH,
  PASSKEY_PATH,
  RESET_PATH,
  SETUP_PATH,
  SIGN_ON_PATH,
  toLoginPath,
} from './links.ts'
import type { ResetLink } from './password-reset.ts'
import { MAX_PASSWORD_LENGTH, MIN_PASSWORD_LENGTH } from './passwords.ts'

/** What was wrong with the submitted form, in one sentence. */
export interface FormProblem {
  readonly message?: string | undefined
}

type Texts<Name extends string> = Readonly<Record<Name, string>>

export const userPage = (title: string, main: Html): Html =>
  htmlPage({
    title: `${title} · Tassis`,
    style: STYLE,
    icon: '/icon.svg',
    main: html`<p class="product"><img src="/icon.svg" alt="" width="28" height="28"> Tassis</p>
<h1>${title}</h1>
${main}`,
  })

export const problemHtml = ({ message }: FormProblem): HtmlValue =>
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

const newPasswordField = (label: string): Html =>
  fieldHtml({
    name: 'password',
    label,
    hint: `At least ${MIN_PASSWORD_LENGTH} characters. Four unrelated words make a good one.`,
    attributes: html` type="password" required minlength="${MIN_PASSWORD_LENGTH}" maxlength="${MAX_PASSWORD_LENGTH}" autocomplete="new-password"`,
  })

const nameField = (name: string): Html =>
  fieldHtml({
    name: 'name',
    label: 'Your name',
    attributes: html` type="text" value="${name}" maxlength="200" autocomplete="name"`,
  })

const codeField = (hint: string, required: Html | false): Html =>
  fieldHtml({
    name: 'code',
    label: 'Code',
    hint,
    attributes: html`${required} maxlength="50" autocomplete="one-time-code" autocapitalize="none" spellcheck="false"`,
  })

/** How people can sign in. */
export interface SignInWays {
  /** Name of the identity provider; undefined: there is none. */
  readonly provider: string | undefined
  /** Whether passwords and passkeys are ways too. */
  readonly isLocal: boolean
  /** Whether passkeys work under the address of this service. */
  readonly hasPasskeys: boolean
}

interface LoginView extends FormProblem {
  readonly email?: string
  /** The page that signing in leads to. */
  readonly next?: string
}

const signOnLink = (provider: string, path: string): Html =>
  html`<p><a class="button" href="${path}">Continue with ${provider}</a></p>`

export const loginPage = (
  { provider, isLocal, hasPasskeys }: SignInWays,
  { email = '', next = LOGIN_PATH, ...problem }: LoginView = {},
): Html => {
  const form = html`<form method="post" action="${LOGIN_PATH}">
${next !== LOGIN_PATH && hiddenField('next', next)}
${emailField(email)}
${PASSWORD_FIELD}
<button>Sign in</button>
</form>`
  return userPage(
    'Sign in',
    html`${problemHtml(problem)}
${provider !== undefined && signOnLink(provider, toLoginPath(next, SIGN_ON_PATH))}
${
  isLocal
    ? html`${form}
<p class="beside">${hasPasskeys && html`<a href="${toLoginPath(next, PASSKEY_PATH)}">Sign in with a passkey</a> · `}<a href="${RESET_PATH}">Set a new password</a></p>`
    : html`<details class="beside"><summary>Sign in with a password</summary>
<p>Only within 24 hours after <code>tassis users reset</code> on the server.</p>
${form}</details>`
}`,
  )
}

/** The second step of signing in, for a user with an authenticator app. @param proof that the password was right */
export const loginCodePage = ({
  email,
  next,
  proof,
  hasPasskeys,
  ...problem
}: FormProblem & Texts<'email' | 'next' | 'proof'> & Pick<SignInWays, 'hasPasskeys'>): Html =>
  userPage(
    'Enter your code',
    html`<p>For <strong>${email}</strong>, within five minutes.</p>
${problemHtml(problem)}
<form method="post" action="${LOGIN_PATH}">
${hiddenField('proof', proof)}
${next !== LOGIN_PATH && hiddenField('next', next)}
${codeField('Six digits from your authenticator app, or a recovery code.', html` required autofocus`)}
<button>Sign in</button>
</form>
<p class="beside">${hasPasskeys && html`<a href="${toLoginPath(next, PASSKEY_PATH)}">Use a passkey</a> · `}<a href="${toLoginPath(next)}">Sign in as another user</a></p>`,
  )

/** Signs in with a passkey, for which it needs its script. @param next the page that it leads to */
export const passkeyPage = (next: string, script: string): Html =>
  userPage(
    'Sign in with a passkey',
    html`<p>By fingerprint, face or PIN of this device, or with a security key.</p>
<noscript><p>This needs JavaScript.</p></noscript>
<p role="alert"></p>
<p><button data-next="${next}">Use a passkey</button></p>
<p class="beside"><a href="${LOGIN_PATH}">Sign in in another way</a></p>
<script type="module" src="${script}"></script>`,
  )

export const signedInPage = ({
  email,
  accountName,
  role,
  csrfToken,
  hasDashboard,
}: Texts<'email' | 'accountName' | 'role' | 'csrfToken'> & { readonly hasDashboard: boolean }): Html =>
  userPage(
    'You are signed in',
    html`<p>As <strong>${email}</strong>, ${role} of <strong>${accountName}</strong>.</p>
${hasDashboard && html`<p><a href="${DASHBOARD_PATH}">Dashboard</a></p>`}
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

export const newPasswordPage = (token: string, { email, isFirst }: ResetLink, problem: FormProblem = {}): Html =>
  userPage(
    isFirst ? 'Welcome to Tassis' : 'Set a new password',
    html`<p>${isFirst ? 'Choose a password for' : 'For'} <strong>${email}</strong>.${!isFirst && ' You will be signed out everywhere.'}</p>
${problemHtml(problem)}
<form method="post" action="${RESET_PATH}">
${hiddenField('token', token)}
<input type="hidden" name="username" value="${email}" autocomplete="username">
${newPasswordField(isFirst ? 'Password' : 'New password')}
<button>Set the password</button>
</form>`,
  )

export const passwordSetPage = ({ isFirst }: ResetLink): Html =>
  userPage(
    'Password set',
    html`<p role="status">${isFirst ? 'Your account is ready.' : 'You have been signed out everywhere.'}</p>
<p><a href="${LOGIN_PATH}">Sign in with the ${!isFirst && 'new '}password</a></p>`,
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

export interface InvitationView extends FormProblem, Texts<'token' | 'email' | 'accountName' | 'role'> {
  readonly proof: Proof
  /** Token of the session that proves who the invited person is. */
  readonly csrfToken?: string | undefined
  readonly name?: string | undefined
  /** Name of the identity provider. */
  readonly provider: string
}

export const joinPage = (view: InvitationView): Html =>
  userPage(
    `Join ${view.accountName}`,
    html`<p>You are invited as ${view.role}, with the address <strong>${view.email}</strong>.</p>
${problemHtml(view)}
${view.proof === 'provider' ? signOnLink(view.provider, `${SIGN_ON_PATH}?invitation=${view.token}`) : joinForm(view)}`,
  )

const joinForm = ({
  token,
  email,
  proof,
  csrfToken,
  name = '',
}: InvitationView): Html => html`<form method="post" action="${JOIN_PATH}">
${hiddenField('token', token)}
${csrfToken !== undefined && hiddenField('csrf_token', csrfToken)}
<input type="hidden" name="username" value="${email}" autocomplete="username">
${proof === 'new-password' && [nameField(name), newPasswordField('Password')]}
${proof === 'password' && [PASSWORD_FIELD, codeField('Only if you use an authenticator app: six digits, or a recovery code.', false)]}
<button>Join</button>
</form>
${proof === 'password' && html`<p class="beside"><a href="${RESET_PATH}">Set a new password</a></p>`}`

export interface SetupView extends FormProblem, Partial<Texts<'accountName' | 'name' | 'email'>> {
  readonly token: string
  /** Name of the existing account that the user will own; undefined: it is created. */
  readonly ofAccount?: string | undefined
}

/** The page of the first start. */
export const setupPage = ({ token, ofAccount, accountName = '', name = '', email = '', ...problem }: SetupView): Html =>
  userPage(
    'Set up Tassis',
    html`<p>${ofAccount === undefined ? 'Create the first account.' : html`Create your sign-in for the account <strong>${ofAccount}</strong>.`} You are its owner and invite the others.</p>
${problemHtml(problem)}
<form method="post" action="${SETUP_PATH}">
${hiddenField('token', token)}
${
  ofAccount === undefined &&
  fieldHtml({
    name: 'account_name',
    label: 'Account name',
    hint: 'Such as the name of your company or product.',
    attributes: html` type="text" value="${accountName}" required maxlength="200" autocomplete="organization"`,
  })
}
${nameField(name)}
${emailField(email)}
${newPasswordField('Password')}
<button>Create account</button>
</form>`,
  )

export const invalidSetupLinkPage = (): Html =>
  userPage(
    'This link is no longer valid',
    html`<p>It was already used, has expired or is incomplete, or this service already has a user.</p>
<p>Restart the service: while there is no user, it prints a new link. Or create an account on the server with <code>tassis accounts create</code>, and its owner with <code>tassis users create</code>.</p>
<p><a href="${LOGIN_PATH}">Sign in</a></p>`,
  )

/** A page that says what failed and why. */
export const errorPage = (message: string): Html =>
  userPage(
    'Something went wrong',
    html`<p role="alert">${message}</p>
<p><a href="${LOGIN_PATH}">Sign in</a></p>`,
  )

/** In the colours of the dashboard. Browser tests measure contrast (WCAG 2.2 §1.4.3, §1.4.11) and sizes (§2.5.8). */
const STYLE = `
:root { font-size: 1rem; --error: #b3141d; --error-tint: #fdf0f0; }
@media (prefers-color-scheme: dark) {
  :root { --error: #ff9a9a; --error-tint: #2b1719; }
}
@media (min-width: 30.01rem) {
  body { padding-top: min(6rem, 10vh); }
}
main { max-width: 26rem; }
form { margin: 1.5rem 0 0; }
.product { display: flex; align-items: center; gap: .5rem; margin-bottom: 1.5rem; font-weight: 600; }
.field { margin: 0 0 1rem; }
label { display: block; margin: 0 0 .25rem; font-size: .875rem; font-weight: 500; }
.hint { margin: .25rem 0 0; font-size: .8125rem; color: var(--faint); }
input { display: block; width: 100%; min-height: 2.75rem; padding: .375rem .75rem; border: 1px solid var(--edge); border-radius: 6px; background: var(--card); color: var(--text); font: inherit; }
.wrong { margin: 0; padding: .75rem; border: 1px solid var(--error); border-radius: 8px; background: var(--error-tint); color: var(--error); font-weight: 500; }
button, .button { display: block; width: 100%; min-height: 2.75rem; padding: .5rem 5%; border: 1px solid var(--strong); border-radius: 6px; background: var(--strong); color: var(--on-strong); font: inherit; font-weight: 500; text-align: center; text-decoration: none; cursor: pointer; overflow-wrap: anywhere; }
:is(button, .button):hover { text-decoration: underline; }
fieldset { margin: 0 0 1rem; padding: 0; border: 0; }
legend { padding: 0; font-size: .875rem; font-weight: 600; }
.box { display: flex; align-items: center; gap: .75rem; min-height: 2.75rem; margin: 0; font-size: 1rem; font-weight: 400; }
.box input { flex: none; width: 1.25rem; min-height: 1.25rem; height: 1.25rem; margin: 0; accent-color: var(--strong); }
:is(.quiet button, .quiet .button, button.quiet) { background: var(--card); border-color: var(--edge); color: var(--text); }
:is(input, button, a, summary):focus-visible { outline: 2px solid var(--strong); outline-offset: 2px; }
summary { padding: .625rem 0; cursor: pointer; color: var(--strong); }
button.quiet { margin-top: .75rem; }
.beside { margin: 1.5rem 0 0; padding-top: 1rem; border-top: 1px solid var(--line); font-size: .875rem; }
`
