/** @module The steps from a new account to delivered mail; gone once all are done or the user hides them. */
import { Anchor, Button, Card, Group, Progress, Stack, Text, Title } from '@mantine/core'
import { useLocalStorage } from '@mantine/hooks'
import { type ReactNode, useState } from 'react'
import { useAllowed, useSession } from '../../api/session.tsx'
import { Authenticator } from '../../parts/authenticator.tsx'
import { API_KEY_HINT, toSendCommand } from '../../parts/commands.ts'
import { TextLink } from '../../parts/links.tsx'
import { CommandBlock } from '../../parts/page.tsx'
import { useExampleDomain } from '../domains/queries.ts'
import type { Step, StepName } from './steps.ts'

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
    text: 'Mail is sent from a domain whose DNS records name this server. Until then mail is only captured.',
    Action: () => <TextLink to="/domains">Set up a domain</TextLink>,
  },
  key: {
    title: 'Make an API key',
    text: 'Your application authenticates with it.',
    Action: () => <TextLink to="/keys">Make an API key</TextLink>,
  },
  email: {
    title: 'Send your first email',
    text: `From the verified domain, to an address of yours; put your key in the place of ${API_KEY_HINT}. This step is done when an email was delivered: captured mail does not count.`,
    Action: SendCommand,
  },
  webhook: {
    title: 'Receive events',
    text: 'A webhook tells your application what became of its mail; or it reads the event feed (GET /v1/events). This step is done when your URL has accepted an event, or a key of yours has read the feed.',
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
  const [opened, setOpened] = useState<StepName>()
  const done = steps.filter(({ isDone }) => isDone).length
  if (isHidden || done === steps.length) return null
  const current = opened ?? steps.find(({ isDone }) => !isDone)?.name
  return (
    <Card withBorder component="section" aria-labelledby="checklist">
      <Stack gap="sm">
        <Group justify="space-between">
          <Title order={2} size="h4" id="checklist">
            Get started
          </Title>
          <Text size="sm">
            {done} of {steps.length} done
          </Text>
        </Group>
        <Progress value={(done / steps.length) * 100} aria-label="Steps done" size="sm" />
        <Stack component="ol" gap="xs" p={0} m={0} style={{ listStyle: 'none' }}>
          {steps.map(({ name, isDone }) => (
            <li key={name}>
              <StepItem name={name} isDone={isDone} isOpen={name === current} onOpen={() => setOpened(name)} />
            </li>
          ))}
        </Stack>
        <Button variant="subtle" size="xs" onClick={() => setIsHidden(true)} style={{ alignSelf: 'flex-start' }}>
          Hide this list
        </Button>
      </Stack>
    </Card>
  )
}

interface StepItemProps {
  readonly name: StepName
  readonly isDone: boolean
  readonly isOpen: boolean
  onOpen(): void
}

function StepItem({ name, isDone, isOpen, onOpen }: StepItemProps) {
  const { title, text, Action } = STEPS[name]
  const forbidden = useAllowed('developer')
  const reason = name === 'authenticator' ? undefined : forbidden
  return (
    <Stack gap="xs">
      <Group gap="xs" wrap="nowrap" align="flex-start">
        <Text component="span" aria-hidden="true" c={isDone ? 'var(--mantine-color-green-text)' : 'inherit'} fw={700}>
          {isDone ? '✓' : '○'}
        </Text>
        {isDone ? (
          <Text>{title}: done</Text>
        ) : (
          <Anchor component="button" type="button" aria-expanded={isOpen} onClick={onOpen} ta="left">
            {title}
          </Anchor>
        )}
      </Group>
      {isOpen && !isDone && (
        <Stack gap="xs" pl="lg" align="flex-start">
          <Text size="sm">{text}</Text>
          {reason === undefined ? <Action /> : <Text size="sm">{reason}</Text>}
        </Stack>
      )}
    </Stack>
  )
}
