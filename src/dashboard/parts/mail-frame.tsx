/** @module The HTML of a message in a frame. The author of the message is not trusted. */
import { Button, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import { Notice } from './status.tsx'

/** Anything by which HTML can name a picture elsewhere. */
const REMOTE_PICTURE = /<(?:img|image|picture|video)\b|\bbackground\s*=|url\(/i

const CHARACTERS_PER_REM = 20

interface MailFrameProps {
  /** Read only to decide whether the message may name remote pictures, and how high it may be. */
  readonly html: string
  /** URL of the frame below `/app`, whose policy allows no script and no request. */
  readonly src: string
}

export function MailFrame({ html, src }: MailFrameProps) {
  const [hasPictures, setHasPictures] = useState(false)
  return (
    <Stack gap="xs">
      {REMOTE_PICTURE.test(html) && (
        <Notice
          action={
            <Button size="xs" variant="default" onClick={() => setHasPictures(!hasPictures)}>
              {hasPictures ? 'Hide remote pictures' : 'Load remote pictures'}
            </Button>
          }
        >
          {hasPictures
            ? 'Pictures are loaded from the servers that the email names.'
            : 'Pictures from other servers are not loaded. Loading them tells those servers that this email was opened, when, and from which network address.'}
        </Notice>
      )}
      <iframe
        // A new element: changing the address of a frame would add to the history.
        key={`${src} ${hasPictures}`}
        className="mail-frame"
        // A page can not read how high its content is: about what its text needs.
        style={{ height: `clamp(10rem, ${Math.ceil(html.length / CHARACTERS_PER_REM)}rem, 70vh)` }}
        title="HTML of the email"
        sandbox=""
        referrerPolicy="no-referrer"
        src={`${src}${src.includes('?') ? '&' : '?'}images=${hasPictures ? 1 : 0}`}
      />
      <Text size="sm" c="dimmed">
        Links do not open from here, and scripts and forms do not work.
      </Text>
    </Stack>
  )
}
