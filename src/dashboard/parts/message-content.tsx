/** @module The content of a message, in tabs that are in the URL. */
import { Text } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { LongText } from './long-text.tsx'
import { MailFrame } from './mail-frame.tsx'
import { Tabs } from './tabs.tsx'

const LABELS = {
  html: 'HTML',
  text: 'Text',
  headers: 'Headers',
  source: 'Source',
  attachments: 'Attachments',
  links: 'Links',
} as const

type Tab = keyof typeof LABELS

interface MessageContentProps<Name extends Tab> {
  readonly tabs: readonly Name[]
  readonly html: string | null | undefined
  readonly text: string | null | undefined
  /** URL of the frame with the HTML. */
  readonly frame: string
  /** Whether the content was stored, and is not there. */
  readonly isMissing?: boolean
  /** The other tabs, and whatever takes the place of a body. */
  readonly panels: Readonly<Record<Exclude<Name, 'html' | 'text'>, () => ReactNode>> & {
    readonly html?: () => ReactNode
  }
  /** After the label of a tab. */
  readonly notes?: Readonly<Record<string, string>>
}

export function MessageContent<Name extends Tab>({ tabs, notes = {}, ...props }: MessageContentProps<Name>) {
  const navigate = useNavigate()
  const first = tabs.find((name) => (name === 'html' && props.html) || (name === 'text' && props.text))
  const { tab = first ?? 'text' }: { readonly tab?: Tab } = useSearch({ strict: false })
  const open = (next: Tab) =>
    void navigate({ to: '.', search: (before) => ({ ...before, tab: next }), replace: true, resetScroll: false })
  return (
    <Tabs
      label="Content"
      value={tab}
      onChange={open}
      tabs={tabs.map((name) => ({
        name,
        label: (
          <>
            {LABELS[name]}
            {notes[name]}
          </>
        ),
        panel: <Panel name={name} {...props} />,
      }))}
    />
  )
}

type PanelProps = Omit<MessageContentProps<Tab>, 'tabs' | 'notes' | 'panels'> & {
  readonly name: Tab
  readonly panels: { readonly [Name in Tab]?: () => ReactNode }
}

function Panel({ name, html, text, frame, isMissing = false, panels }: PanelProps) {
  const body = name === 'html' ? html : text
  if ((name === 'html' || name === 'text') && !body)
    return (
      <Text>
        {isMissing
          ? 'The content is missing from the storage of this service; ask its operator to restore it from a backup.'
          : `This message has no ${LABELS[name] === 'HTML' ? 'HTML' : 'text'}, or it is no longer stored.`}
      </Text>
    )
  const own = panels[name]
  if (own) return own()
  return name === 'html' ? (
    <MailFrame html={body ?? ''} src={frame} />
  ) : (
    <LongText label="Text of the message" text={body ?? ''} />
  )
}
