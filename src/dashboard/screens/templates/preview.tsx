/** @module What the template renders with the data, beside the editor. */
import { Button, Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import { FormError } from '../../parts/form.tsx'
import { LongText } from '../../parts/long-text.tsx'
import { MailFrame } from '../../parts/mail-frame.tsx'
import { Notice } from '../../parts/status.tsx'
import { Tabs } from '../../parts/tabs.tsx'
import type { Rendering } from './use-rendered.ts'

const VIEWS = { desktop: 'Desktop', phone: 'Phone', text: 'Text' } as const
type View = keyof typeof VIEWS
const VIEW_NAMES: readonly View[] = ['desktop', 'phone', 'text']

interface PreviewProps {
  readonly rendering: Rendering
  /** Why nothing can be rendered now. */
  readonly obstacle: string | undefined
}

export function Preview({ rendering, obstacle }: PreviewProps) {
  const [view, setView] = useState<View>('desktop')
  return (
    <section aria-label="Preview" className="template-preview">
      <Tabs
        label="Preview as"
        value={view}
        onChange={setView}
        tabs={VIEW_NAMES.map((name) => ({
          name,
          label: VIEWS[name],
          panel: <Shown rendering={rendering} obstacle={obstacle} view={name} />,
        }))}
      />
    </section>
  )
}

function Shown({ rendering, obstacle, view }: PreviewProps & { readonly view: View }) {
  const { result, error, retry } = rendering
  return (
    <Stack gap="xs">
      {error !== undefined && (
        <>
          <FormError error={error} />
          <Group>
            <Button size="xs" variant="default" onClick={retry}>
              Try again
            </Button>
          </Group>
        </>
      )}
      {result && result.subject !== null && (
        <Text fw={600}>
          <bdi>{result.subject}</bdi>
        </Text>
      )}
      <Body rendering={rendering} view={view} />
      <Text size="xs" c="dimmed" role="status">
        {toStateText(rendering, obstacle)}
      </Text>
    </Stack>
  )
}

function toStateText({ result, isCurrent, error }: Rendering, obstacle: string | undefined): string {
  if (obstacle !== undefined) return obstacle
  if (error !== undefined) return 'The preview is not up to date.'
  if (!isCurrent || !result) return 'Rendering…'
  const count = result.problems.length
  if (count === 0) return 'Rendered with the test data.'
  return count === 1
    ? '1 problem: a send with this data is refused.'
    : `${count} problems: a send with this data is refused.`
}

function Body({ rendering: { result, lastShown }, view }: { readonly rendering: Rendering; readonly view: View }) {
  if (!result) return null
  if (view === 'text')
    return result.text_body === null ? (
      <Text size="sm">
        {hasProblem(result, 'text_body')
          ? 'The text has an error.'
          : 'Without a text of its own, the email gets one that is made from its HTML.'}
      </Text>
    ) : (
      <LongText label="Text of the preview" text={result.text_body} />
    )
  const isBroken = hasProblem(result, 'html_body') || hasProblem(result, 'template_data')
  const shown = result.preview_id !== null ? result : isBroken ? lastShown : undefined
  return (
    <>
      {isBroken && shown !== undefined && (
        <Notice tone="warning">The HTML has an error. Below it is as it was before.</Notice>
      )}
      {shown ? (
        <div className={view === 'phone' ? 'preview-phone' : undefined}>
          <MailFrame html={shown.html_body ?? ''} src={`/app/previews/${shown.preview_id}`} />
        </div>
      ) : (
        <Text size="sm">{isBroken ? 'The HTML has an error.' : 'The template has no HTML.'}</Text>
      )}
    </>
  )
}

const hasProblem = ({ problems }: NonNullable<Rendering['result']>, name: string): boolean =>
  problems.some(({ field }) => field === name)
