/**
 * @module The style of the pages in front of the dashboard, in its colours. Browser tests measure contrast (WCAG 2.2
 * §1.4.3, §1.4.11) and sizes (§2.5.8).
 */
export const STYLE = `
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
.quiet :is(button, .button) { background: var(--card); border-color: var(--edge); color: var(--text); }
:is(input, button, a, summary):focus-visible { outline: 2px solid var(--strong); outline-offset: 2px; }
summary { padding: .625rem 0; cursor: pointer; color: var(--strong); }
.beside { margin: 1.5rem 0 0; padding-top: 1rem; border-top: 1px solid var(--line); font-size: .875rem; }
`
