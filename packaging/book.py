"""Prepares the sources of the book, and checks the links of its pages.

    book.py stage FOLDER    copies the pages of docs/SUMMARY.md, and what they link to
    book.py check FOLDER    checks the links and anchors of the HTML in this folder
"""

import html
import html.parser
import os
import re
import shutil
import sys
import urllib.parse

# mdBook gives README.md another name in the book, but not in links to it.
NAMES = {
    "README.md": "tenure.md",
    "docker/README.md": "docker/containers.md",
    "docs/papers/README.md": "docs/papers/papers.md",
}
# The contents of the book are beside each of its pages.
CONTENTS = "docs/SUMMARY.md"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s`]+)\)")
DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def is_outside(target):
    return "://" in target or target.startswith(("#", "mailto:"))


def place(page, target):
    """The file of the repository that a link of a page names."""
    return os.path.normpath(os.path.join(os.path.dirname(page), target))


def stage(out):
    summary = open(CONTENTS).read()
    pages = [place(CONTENTS, target) for _, _, target in LINK.findall(summary)]
    missing = [page for page in sorted(os.listdir("docs"))
               if page.endswith(".md") and f"docs/{page}" not in [*pages, CONTENTS]]
    if missing:
        sys.exit(f"{CONTENTS} does not name {', '.join(missing)}")

    def rewritten(page, text, root):
        def link(match):
            bang, label, target = match.groups()
            if is_outside(target):
                return match.group(0)
            path, _, anchor = target.partition("#")
            named = place(page, urllib.parse.unquote(path))
            if named in pages:
                named = NAMES.get(named, named)
            elif os.path.isfile(named) and named != CONTENTS:
                copy = os.path.join(out, named)
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy(named, copy)
            else:
                # A folder of the repository is no page of the book, nor are its contents.
                return label
            relative = os.path.relpath(named, root)
            return f"{bang}[{label}]({relative}{'#' + anchor if anchor else ''})"
        return DIAGRAM.sub(diagram, LINK.sub(link, text))

    def diagram(match):
        # A blank line would end the HTML.
        return f'<pre class="mermaid">\n{html.escape(match.group(1))}</pre>'

    for page in pages:
        text = rewritten(page, open(page).read(), os.path.dirname(NAMES.get(page, page)) or ".")
        target = os.path.join(out, NAMES.get(page, page))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "w").write(text)
    open(os.path.join(out, "SUMMARY.md"), "w").write(rewritten(CONTENTS, summary, "."))


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        for name in ("href", "src"):
            if name in attributes:
                self.links.append(attributes[name])


def check(folder):
    pages = {}
    for root, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(root, name)
                pages[path] = Page(open(path).read())
    broken, count = [], 0
    for path, page in pages.items():
        # 404.html is served for any path, and print.html repeats all pages in one.
        if os.path.basename(path) in ("404.html", "print.html", "toc.html"):
            continue
        for target in page.links:
            if not target or "://" in target or target.startswith(("mailto:", "data:")):
                continue
            count += 1
            file, _, anchor = target.partition("#")
            named = place(path, urllib.parse.unquote(file)) if file else path
            other = pages.get(named)
            if not os.path.exists(named):
                broken.append(f"{path}: {target} does not exist")
            elif anchor and other and urllib.parse.unquote(anchor) not in other.ids:
                broken.append(f"{path}: {target} has no such anchor")
    if broken or count < 500:
        sys.exit("\n".join(broken) or f"only {count} links were found")
    print(f"   {len(pages)} pages, {count} links")


{"stage": stage, "check": check}[sys.argv[1]](sys.argv[2])
