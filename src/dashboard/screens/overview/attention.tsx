/** @module What needs attention, as rows: what it is, and what to do. */
import { TextLink } from '../../parts/links.tsx'
import { Section } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { Time } from '../../parts/time.tsx'
import type { Notice } from './notices.ts'

const LEVELS = { problem: { tone: 'bad', word: 'Problem' }, warning: { tone: 'warning', word: 'Warning' } } as const

export const Attention = ({ notices }: { readonly notices: readonly Notice[] }) =>
  notices.length > 0 && (
    <Section title="Needs attention">
      <ul className="rows attention">
        {notices.map(({ key, level, title, text, at, action }) => (
          <li key={key}>
            <div>
              <StatusLabel tone={LEVELS[level].tone}>
                <span className="visually-hidden">{LEVELS[level].word}: </span>
                <b className="row-title">{title}</b>
              </StatusLabel>
            </div>
            <div className="row-aside">
              <TextLink {...action.target}>{action.label}</TextLink>
            </div>
            <div className="row-more">
              <span>
                {text}
                {at && (
                  <>
                    {' '}
                    {at.label} <Time iso={at.iso} />.
                  </>
                )}
              </span>
            </div>
          </li>
        ))}
      </ul>
    </Section>
  )
