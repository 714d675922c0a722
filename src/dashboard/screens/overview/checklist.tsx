/** @module The steps from a new account to delivered mail; gone once all are done or the user hides them. */
import { Button } from '@mantine/core'
import { useLocalStorage } from '@mantine/hooks'
import type { ReactNode } from 'react'
import { useSession } from '../../api/session.tsx'
import { Authenticator } from '../../parts/authenticator.tsx'
import { API_KEY_HINT, toSendCommand } from '../../parts/commands.ts'
import { TextLink } from '../../parts/links.tsx'
import { CommandBlock } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { useExampleDomain } from '../queries.ts'
import { isMostlyDone, type Step, type StepName } from './steps.ts'

interface StepText {
  readonly title: string
  readonly text: string
  readonly Action: () => ReactNode
}

function SendCommand() {
  const domain = useExampleDomain()
  return <CommandBlock command={toSendCommand(domain?.domain)} />
}

const STEPS: Readonly<Record<StepName, StepText>> = {
  domain: {
    title: 'Verify a domain',
    text: 'Until then mail is only captured.',
    Action: () => <TextLink to="/domains">Add a domain</TextLink>,
  },
  key: {
    title: 'Create an API key',
    text: 'Your application signs in with it.',
    Action: () => <TextLink to="/keys">Create an API key</TextLink>,
  },
  email: {
    title: 'Send your first email',
    text: `To an address of yours, with your key in the place of ${API_KEY_HINT}. Done when an email is delivered; captured mail does not count.`,
    Action: SendCommand,
  },
  webhook: {
    title: 'Receive events',
    text: 'By a webhook, or from the feed (GET /v1/events). Done when your URL accepts an event, or a key reads the feed.',
    Action: () => <TextLink to="/webhooks">Add a webhook</TextLink>,
  },
  authenticator: {
    title: 'Protect your sign-in',
    text: 'With an authenticator app, a stolen password is not enough.',
    Action: Authenticator,
  },
}

export function Checklist({ steps }: { readonly steps: readonly Step[] }) {
  const { account } = useSession()
  const [isHidden, setIsHidden] = useLocalStorage({
    key: `tassis-checklist-hidden-${account.id}`,
    defaultValue: false,
    getInitialValueInEffect: false,
  })
  const done = steps.filter(({ isDone }) => isDone).length
  const first = steps.find(({ isDone }) => !isDone)
  if (isHidden || !first) return null
  return (
    <details className="checklist card" open={!isMostlyDone(steps)}>
      <summary>
        <h2>Get started</h2>
        <progress value={done} max={steps.length} aria-label="Steps done" />
        <span className="share-rate">
          {done} of {steps.length} done. Next: {STEPS[first.name].title}
        </span>
      </summary>
      <ol>
        {steps.map(({ name, isDone }) => (
          <StepItem key={name} name={name} isDone={isDone} isNext={name === first.name} />
        ))}
      </ol>
      <Button variant="subtle" color="gray" size="xs" ml="-0.625rem" onClick={() => setIsHidden(true)}>
        Hide this list
      </Button>
    </details>
  )
}

function StepItem({ name, isDone, isNext }: Step & { readonly isNext: boolean }) {
  const { title, text, Action } = STEPS[name]
  if (isDone)
    return (
      <li>
        <StatusLabel tone="good">
          {title}
          <span className="visually-hidden">: done</span>
        </StatusLabel>
      </li>
    )
  return (
    <li>
      {/* One of them is open. */}
      <details name="step" open={isNext}>
        <summary>
          <b className="row-title">{title}</b>
        </summary>
        <div className="checklist-step">
          <p>{text}</p>
          <Action />
        </div>
      </details>
    </li>
  )
}
